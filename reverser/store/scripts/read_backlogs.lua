-- KEYS journals of branches
local now, found = now_ms(), {}
for i, key in ipairs(KEYS) do
  local first = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
  local age = 0
  if first then age = math.max(now - tonumber(first[1]:match('^%d+')), 0) end
  found[2 * i - 1], found[2 * i] = redis.call('XLEN', key), age
end
return found
