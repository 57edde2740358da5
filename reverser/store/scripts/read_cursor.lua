-- KEYS cursor, append. A key of another type is no cursor; the replay's append replaces it.
local rv = redis.pcall('GET', KEYS[1])
if type(rv) ~= 'string' then return false end
local v = redis.call('HMGET', KEYS[2], 'session', 'seq', 'epoch', 'fingerprint')
if not v[1] then return false end
return {rv, v[1], v[2], v[3], v[4]}
