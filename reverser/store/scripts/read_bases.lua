-- KEYS records of branches
local bases = {}
for i, key in ipairs(KEYS) do bases[i] = redis.call('HGET', key, 'base') end
return bases
