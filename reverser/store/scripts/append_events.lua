-- J2, J3, J8: the entries of one shard and its cursor, in one step.
-- KEYS target lease, epoch, cursor, append, stream, bytes, due, branch lease, branches, scopes
-- ARGV token, number, epoch, expected session, expected seq, session, seq, fingerprint, rv, ttl s,
--      uid, scope, target limit, branch limit, branch id, branch, hint channel, then 5 per entry
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'fenced' end
if redis.call('GET', KEYS[2]) ~= ARGV[3] then return 'epoch-mismatch' end
local state = cursor_state(KEYS[4], ARGV[4], ARGV[5], ARGV[6], ARGV[7])
if state == 'duplicate' then return 'duplicate' end
if state ~= 'expected' then return 'cursor-mismatch' end
local first = 18
if #ARGV >= first then
  if full(KEYS[6], ARGV[11], ARGV[13], ARGV[14]) then return 'full' end
  local total = 0
  for i = first, #ARGV, 5 do
    redis.call('XADD', KEYS[5], '*', 'k', ARGV[i], 'u', ARGV[11], 's', ARGV[12], 'o', ARGV[i + 1],
      'm', ARGV[i + 2], 'b', ARGV[i + 3], 'n', ARGV[i + 4])
    total = total + tonumber(ARGV[i + 4])
  end
  count_bytes(KEYS[6], ARGV[11], total)
  redis.call('HSET', KEYS[9], ARGV[15], ARGV[16])
  redis.call('SADD', KEYS[10], ARGV[11] .. '|' .. ARGV[12])
  make_due(KEYS[7], KEYS[8], ARGV[15], ARGV[17])
end
move_cursor(KEYS[3], KEYS[4], ARGV[9], ARGV[6], ARGV[7], ARGV[3], ARGV[8], ARGV[10])
return 'ok'
