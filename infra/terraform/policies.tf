# The same policies as in policies.yaml. Never change a description: IAM would replace the policy.
locals {
  policies = {
    worker = {
      description = "Runs steps of tasks, and creates tasks."
      statements = {
        Rows    = ["BatchGetItem", "ConditionCheckItem", "GetItem", "PutItem", "Query", "UpdateItem"]
        Groups  = ["DeleteItem"] # nothing but the places of tasks in groups, and these only in transactions
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

  table_arn = aws_dynamodb_table.tasks.arn
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
      Resource = sid == "States" ? "${local.table_arn}/index/status-index" : local.table_arn
      Condition = merge(
        { Bool = { "aws:SecureTransport" = "true" } },
        [for of_sid, condition in local.conditions : condition if of_sid == sid]...
      )
    }]
  })
}
