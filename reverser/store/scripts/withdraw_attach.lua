-- A request that was deleted while it waits (J7).
-- KEYS request mark
local mark = redis.call('GET', KEYS[1])
if not mark or mark:sub(1, 8) ~= 'pending ' then return 0 end
redis.call('SET', KEYS[1], 'withdrawn ' .. mark:sub(9))
return 1
