-- KEYS record, bytes, stream
local v = redis.call('HMGET', KEYS[1], 'base', 'last_push')
return {v[1], v[2], redis.call('HGET', KEYS[2], 'all'), redis.call('XLEN', KEYS[3])}
