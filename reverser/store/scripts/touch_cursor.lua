-- J4: a paused shard keeps its cursor. KEYS cursor, append   ARGV ttl s
redis.call('EXPIRE', KEYS[2], ARGV[1])
return redis.call('EXPIRE', KEYS[1], ARGV[1])
