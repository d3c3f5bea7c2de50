terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.37, < 7.0" # the first version that handles key_schema blocks of an index correctly
    }
  }
}
