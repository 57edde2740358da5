-- KEYS cursor, append
local rv = redis.call('GET', KEYS[1])
if not rv then return false end
local v = redis.call('HMGET', KEYS[2], 'session', 'seq', 'epoch', 'fingerprint')
if not v[1] then return false end
return {rv, v[1], v[2], v[3], v[4]}
