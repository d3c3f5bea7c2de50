"""The contract of the library, each behaviour on moto and on dynoxide alike."""
