variable "table_name" {
  description = "As in Meta.table_name."
  type        = string
  default     = "tasks"
  nullable    = false

  validation {
    condition     = can(regex("^[a-zA-Z0-9_.-]{3,255}$", var.table_name))
    error_message = "A table has a name of 3 to 255 letters, digits, hyphens, dots and underscores."
  }
}

variable "deletion_protection" {
  description = "Whether DynamoDB refuses to delete the table."
  type        = bool
  default     = true
  nullable    = false
}

variable "kms_key_arn" {
  description = "A key of your own for encryption at rest. Null is the key that AWS owns, which costs nothing."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]+$", var.kms_key_arn))
    error_message = "Write the ARN of a key, as in arn:aws:kms:us-east-1:123456789012:key/..."
  }
}

variable "stream_view_type" {
  description = "What of a changed row the stream has. Null is no stream."
  type        = string
  default     = null

  validation {
    condition     = var.stream_view_type == null || contains(["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"], coalesce(var.stream_view_type, "NONE"))
    error_message = "One of KEYS_ONLY, NEW_IMAGE, OLD_IMAGE and NEW_AND_OLD_IMAGES."
  }
}

variable "warm_units" {
  description = "Read and write units a second that the table is made ready for. Null leaves it to DynamoDB."
  type        = object({ read = number, write = number })
  default     = null
}

variable "index_warm_units" {
  description = "The same for the index. A run takes twice as many write units there as in the table."
  type        = object({ read = number, write = number })
  default     = null
}

variable "max_units" {
  description = "Read and write units a second above which DynamoDB throttles. Null is no limit."
  type        = object({ read = number, write = number })
  default     = null
}

variable "index_max_units" {
  description = "The same for the index. A run takes twice as many write units there as in the table."
  type        = object({ read = number, write = number })
  default     = null
}

variable "tags" {
  description = "Tags of the table."
  type        = map(string)
  default     = {}
  nullable    = false
}
