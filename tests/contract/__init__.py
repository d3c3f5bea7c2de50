"""The contract of the library, each behaviour on moto and on DynamoDB Local alike."""
