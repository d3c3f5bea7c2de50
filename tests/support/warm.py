"""Imported by the process from which workers are forked, to load slow modules and AWS's service descriptions once."""

import botocore.session

from tests.support.quick_botocore import share_descriptions

share_descriptions()
botocore.session.get_session().create_client("dynamodb", region_name="us-east-1").close()
