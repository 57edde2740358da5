-- J15: the remote has answered a push with a refusal. Such a push is remembered as long as a stray, then it goes.
-- KEYS branch lease, intents   ARGV token, number, intent id, intent, seconds
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
local known = redis.call('HGET', KEYS[2], ARGV[3])
if known then redis.call('HSET', KEYS[2], ARGV[3], known:match('^%d+') .. ' ' .. ARGV[4]) end
local past = now_ms() - ARGV[5] * 1000
local intents = redis.call('HGETALL', KEYS[2])
for i = 1, #intents, 2 do
  local refused = cjson.decode(intents[i + 1]:sub(intents[i + 1]:find(' ', 1, true) + 1)).refused_ms or 0
  if refused > 0 and refused <= past then redis.call('HDEL', KEYS[2], intents[i]) end
end
return 1
