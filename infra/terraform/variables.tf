variable "table_name" {
  description = "The same as Meta.table_name."
  type        = string
  default     = "tasks"
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
  default     = null

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
  description = "Whether to make the policies of workers, readers, operators and schedulers, as policies.yaml does."
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
