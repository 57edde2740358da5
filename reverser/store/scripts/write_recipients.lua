-- J20: another set is another generation. KEYS target lease, recipients   ARGV token, number, recipients
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return false end
if redis.call('HGET', KEYS[2], 'recipients') ~= ARGV[3] then
  redis.call('HSET', KEYS[2], 'recipients', ARGV[3])
  redis.call('HINCRBY', KEYS[2], 'generation', 1)
end
return redis.call('HGET', KEYS[2], 'generation')
