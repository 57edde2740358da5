-- Facts that aged out without naming anybody: each is counted once, by whoever calls first.
-- KEYS unused facts   ARGV most
local gone = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms(), 'LIMIT', 0, ARGV[1])
for first = 1, #gone, 1000 do
  redis.call('ZREM', KEYS[1], unpack(gone, first, math.min(first + 999, #gone)))
end
return #gone
