-- J15: what a push is about to do. Settling takes it away, and an hour after the remote's refusal.
-- KEYS branch lease, intents, boundaries, record   ARGV token, number, intent id, intent, boundary ids
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
for i = 5, #ARGV do
  if redis.call('HEXISTS', KEYS[3], ARGV[i]) == 0 then return 0 end
end
local order = int(redis.call('HINCRBY', KEYS[4], 'order', 1))
redis.call('HSET', KEYS[2], ARGV[3], order .. ' ' .. ARGV[4])
return 1
