-- J9: only here may a due time move later.
-- KEYS branch lease, index, stream, due, record   ARGV token, number, branch id, planned last id, due ms or '', hint
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)
local id = ''
if #last > 0 then id = last[1][1] end
redis.call('DEL', KEYS[1])
redis.call('HDEL', KEYS[2], ARGV[3])
if newer(id, ARGV[4]) or redis.call('HDEL', KEYS[5], 'woken') == 1 then
  redis.call('ZADD', KEYS[4], int(now_ms()), ARGV[3])
  redis.call('PUBLISH', ARGV[6], ARGV[3])
elseif ARGV[5] ~= '' then
  redis.call('ZADD', KEYS[4], ARGV[5], ARGV[3])
else
  redis.call('ZREM', KEYS[4], ARGV[3])
end
return 1
