"""Control servers, and the sharding of entries over them."""
