-- KEYS gates, marks, path; ARGV target
return {
  redis.call('HGET', KEYS[1], ARGV[1]),
  redis.call('HGETALL', KEYS[2]),
  redis.call('HGET', KEYS[3], 'skipped'),
}
