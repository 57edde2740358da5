-- J7, J22: attach and retire. They are small and let the branch move on, so no limit refuses them.
-- KEYS target lease, stream, bytes, due, branch lease, branches, request mark (attach only)
-- ARGV token or '', number, uid, branch id, branch, hint channel, then one packed entry
if ARGV[1] ~= '' and not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'fenced' end
if KEYS[7] then
  local mark = redis.call('GET', KEYS[7])
  if mark and mark:sub(1, 8) == 'pending ' then return 'duplicate' end
  if mark then return 'terminal' end
end
local id = redis.call('XADD', KEYS[2], '*', 'k', ARGV[7], 'u', ARGV[3], 's', '', 'o', ARGV[8],
  'm', ARGV[9], 'b', ARGV[10], 'n', ARGV[11])
count_bytes(KEYS[3], ARGV[3], tonumber(ARGV[11]))
if KEYS[7] then redis.call('SET', KEYS[7], 'pending ' .. id) end
redis.call('HSET', KEYS[6], ARGV[4], ARGV[5])
make_due(KEYS[4], KEYS[5], ARGV[4], ARGV[6])
return 'ok'
