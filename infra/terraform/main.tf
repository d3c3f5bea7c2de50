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
