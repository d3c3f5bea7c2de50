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
