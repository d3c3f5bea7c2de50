terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.37, < 7.0" # the first version that handles key_schema blocks of an index correctly
    }
  }
}

variable "table_name" {
  description = "The same as Meta.table_name."
  type        = string
  default     = @table_name@
  nullable    = false

  validation {
    condition     = can(regex("^[a-zA-Z0-9_.-]{3,255}$", var.table_name))
    error_message = "The name of a table has 3 to 255 letters, digits, hyphens, dots and underscores."
  }
}

variable "deletion_protection" {
  description = "Whether DynamoDB refuses to delete the table. To destroy or replace it, apply false first."
  type        = bool
  default     = true
  nullable    = false
}

variable "kms_key_arn" {
  description = "Your own key for encryption at rest. If null, DynamoDB uses an AWS owned key, which is free."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]+$", var.kms_key_arn))
    error_message = "kms_key_arn must be the ARN of a key, for example arn:aws:kms:us-east-1:123456789012:key/..."
  }
}

variable "stream_view_type" {
  description = "What the stream contains of a changed row. Null for no stream."
  type        = string
  default     = @stream@

  validation {
    condition     = var.stream_view_type == null || contains(["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"], coalesce(var.stream_view_type, "NONE"))
    error_message = "stream_view_type must be null or one of KEYS_ONLY, NEW_IMAGE, OLD_IMAGE and NEW_AND_OLD_IMAGES."
  }
}

variable "warm_units" {
  description = "Read and write units per second that the table is warmed up for. If null, DynamoDB decides."
  type        = object({ read = number, write = number })
  default     = null
}

variable "index_warm_units" {
  description = "The same for the index. A run uses twice as many write units there as in the table."
  type        = object({ read = number, write = number })
  default     = null
}

variable "max_units" {
  description = "Read and write units per second above which DynamoDB throttles. To take a limit off again, set it to -1. If null, there is none."
  type        = object({ read = number, write = number })
  default     = null
}

variable "index_max_units" {
  description = "The same for the index. A run uses twice as many write units there as in the table."
  type        = object({ read = number, write = number })
  default     = null
}

variable "throttled_keys" {
  description = "Whether CloudWatch Contributor Insights shows which keys of the index are throttled. Only throttled requests cost anything."
  type        = bool
  default     = false
  nullable    = false
}

variable "policies" {
  description = "Whether to make the policies of workers, readers, operators and schedulers."
  type        = bool
  default     = false
  nullable    = false
}

variable "job_store" {
  description = "The name of the job store of the schedulers, as in DynamoDBJobStore(AppTask, store=\"default\")."
  type        = string
  default     = "default"
  nullable    = false
}

variable "tags" {
  description = "Tags of the table."
  type        = map(string)
  default     = {}
  nullable    = false
}

resource "aws_dynamodb_table" "tasks" {
  name                        = var.table_name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "task_id"
  range_key                   = "use_case_id"
  deletion_protection_enabled = var.deletion_protection
  stream_enabled              = var.stream_view_type != null
  stream_view_type            = var.stream_view_type
  tags                        = var.tags

  attribute {
    name = "task_id"
    type = "S"
  }

  attribute {
    name = "use_case_id"
    type = "S"
  }

  attribute {
    name = "status_key"
    type = "S"
  }

  attribute {
    name = "due_time"
    type = "S"
  }
@attributes@
  global_secondary_index {
    name = "status-index"

    key_schema {
      attribute_name = "status_key"
      key_type       = "HASH"
    }

    key_schema {
      attribute_name = "due_time"
      key_type       = "RANGE"
    }

    # Do not add attributes: a status change must cost the same whatever the size of the row.
    projection_type    = "INCLUDE"
    non_key_attributes = ["status", "attempt", "create_time", "update_time", "last_error"]

    dynamic "warm_throughput" {
      for_each = var.index_warm_units == null ? [] : [var.index_warm_units]
      content {
        read_units_per_second  = warm_throughput.value.read
        write_units_per_second = warm_throughput.value.write
      }
    }

    dynamic "on_demand_throughput" {
      for_each = var.index_max_units == null ? [] : [var.index_max_units]
      content {
        max_read_request_units  = on_demand_throughput.value.read
        max_write_request_units = on_demand_throughput.value.write
      }
    }
  }
@indexes@
  dynamic "warm_throughput" {
    for_each = var.warm_units == null ? [] : [var.warm_units]
    content {
      read_units_per_second  = warm_throughput.value.read
      write_units_per_second = warm_throughput.value.write
    }
  }

  dynamic "on_demand_throughput" {
    for_each = var.max_units == null ? [] : [var.max_units]
    content {
      max_read_request_units  = on_demand_throughput.value.read
      max_write_request_units = on_demand_throughput.value.write
    }
  }

  ttl {
    attribute_name = "expire_time"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  dynamic "server_side_encryption" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]
    content {
      enabled     = true
      kms_key_arn = server_side_encryption.value
    }
  }
}

resource "aws_dynamodb_contributor_insights" "throttled_keys" {
  count      = var.throttled_keys ? 1 : 0
  table_name = aws_dynamodb_table.tasks.name
  index_name = "status-index"
  mode       = "THROTTLED_KEYS"
}

# Never change a description: IAM would replace the policy.
locals {
  policies = {
    worker = {
      description = "Runs steps of tasks, and creates tasks."
      statements = {
        Rows    = ["BatchGetItem", "ConditionCheckItem", "GetItem", "PutItem", "Query", "UpdateItem"]
        Groups  = ["DeleteItem"]
        Batches = ["PartiQLInsert", "PartiQLUpdate"]
        States  = ["Query"]
      }
    }

    reader = {
      description = "Reads tasks, counts them, and looks at the settings of the table."
      statements = {
        Rows       = ["BatchGetItem", "GetItem", "Query"]
        WholeTable = ["Scan"]
        States     = ["Query", "Scan"]
        Settings   = ["DescribeContinuousBackups", "DescribeTable", "DescribeTimeToLive"]
      }
    }

    operator = {
      description = "Does what workers and readers do, sets tasks aside, reopens, deletes and loads them."
      statements = {
        Rows       = ["BatchGetItem", "ConditionCheckItem", "DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem"]
        Batches    = ["PartiQLDelete", "PartiQLInsert", "PartiQLUpdate"]
        WholeTable = ["Scan"]
        States     = ["Query", "Scan"]
        Settings   = ["DescribeContinuousBackups", "DescribeTable", "DescribeTimeToLive"]
      }
    }

    scheduler = {
      description = "Keeps the jobs of one job store of APScheduler."
      statements = {
        Jobs = ["BatchGetItem", "ConditionCheckItem", "DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem"]
      }
    }
  }

  conditions = {
    Jobs = {
      "ForAllValues:StringEquals" = { "dynamodb:LeadingKeys" = ["apscheduler#${var.job_store}"] }
      "Null"                      = { "dynamodb:LeadingKeys" = "false" }
    }
    Groups = { "ForAnyValue:StringEquals" = { "dynamodb:EnclosingOperation" = ["TransactWriteItems"] } }
  }

  table_arn  = aws_dynamodb_table.tasks.arn
  index_arns = [for name in [@index_names@] : "${local.table_arn}/index/${name}"]
}

resource "aws_iam_policy" "users" {
  for_each    = { for name, policy in local.policies : name => policy if var.policies }
  name        = "${var.table_name}-${each.key}"
  description = each.value.description
  tags        = var.tags

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [for sid, actions in each.value.statements : {
      Sid      = sid
      Effect   = "Allow"
      Action   = [for action in actions : "dynamodb:${action}"]
      Resource = sid == "States" ? local.index_arns : [local.table_arn]
      Condition = merge(
        { Bool = { "aws:SecureTransport" = "true" } },
        [for of_sid, condition in local.conditions : condition if of_sid == sid]...
      )
    }]
  })
}

output "table_name" {
  description = "The name of the table."
  value       = aws_dynamodb_table.tasks.name
}

output "table_arn" {
  description = "The ARN of the table."
  value       = aws_dynamodb_table.tasks.arn
}

output "index_arn" {
  description = "The ARN of its index; policies need it in addition to that of the table."
  value       = "${aws_dynamodb_table.tasks.arn}/index/status-index"
}

output "policy_arns" {
  description = "The ARNs of the policies, by worker, reader, operator and scheduler; empty without them."
  value       = { for name, policy in aws_iam_policy.users : name => policy.arn }
}

output "stream_arn" {
  description = "The ARN of its stream, or null if it has none."
  value       = var.stream_view_type == null ? null : aws_dynamodb_table.tasks.stream_arn
}
