terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.37, < 7.0" # from here on it takes the keys of an index as blocks without faults
    }
  }
}
