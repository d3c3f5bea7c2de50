"""What the library assumes about DynamoDB: one test per behaviour, on moto and on dynoxide, or on AWS.

Each docstring names its source: a page of AWS's documentation, or a test of the Parity Suite (https://paritysuite.org),
which runs on AWS. `TRACKER_TEST_ENDPOINT=aws make assumptions` runs these tests on AWS, with your account.
"""
