-- The ids of the journal without its bodies, which would be the larger part of the answer.
-- KEYS stream   ARGV start, count
local out = {}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])) do out[#out + 1] = entry[1] end
return out
