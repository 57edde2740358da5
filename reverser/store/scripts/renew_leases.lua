-- Which leases are still held, each extended. KEYS leases   ARGV ttl ms, then token and number of each
local held = {}
for i, key in ipairs(KEYS) do
  held[i] = 0
  if holds(key, ARGV[2 * i], ARGV[2 * i + 1]) then held[i] = redis.call('PEXPIRE', key, ARGV[1]) end
end
return held
