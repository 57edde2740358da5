-- J5, J6, J14, J23: a complete replay becomes one entry; the shard's cursor moves to it.
-- KEYS target lease, epoch, cursor, append, stream, bytes, due, branch lease, branches, scopes,
--      staging, sweeps, claimed, marks, applied, released, outcomes
-- ARGV token, number, epoch, expected session, expected seq, session, seq, fingerprint, rv, ttl s,
--      uid, scope, target limit, branch limit, branch id, branch, hint channel,
--      replay id, count, wanted, meta, size, staging prefix, superseded outcome, outcomes kept, any expected
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'fenced' end
if redis.call('GET', KEYS[2]) ~= ARGV[3] then return 'epoch-mismatch' end
local uid, scope, replay, count = ARGV[11], ARGV[12], ARGV[18], tonumber(ARGV[19])
local field = uid .. '|' .. scope
local pending = redis.call('HGET', KEYS[12], field) or ''
local old_id, old_replay = pending:match('^(%S+) (.*)$')
if redis.call('HGET', KEYS[4], 'replay') == replay or old_replay == replay then return 'duplicate' end
local state = cursor_state(KEYS[4], ARGV[4], ARGV[5], ARGV[6], ARGV[7])
if state == 'late' or state == 'duplicate' then return 'cursor-mismatch' end
if state == 'other' and ARGV[26] ~= '1' then return 'cursor-mismatch' end
if redis.call('EXISTS', KEYS[11]) == 0 then
  if count > 0 then return 'staging-mismatch' end
  redis.call('HSET', KEYS[11], 'size', 0)
end
if redis.call('HLEN', KEYS[11]) - 1 ~= count then return 'staging-mismatch' end
-- The sweep that this one replaces makes room first, so a scope at its limit can still be made right.
local superseding = old_id and redis.call('HEXISTS', KEYS[13], old_id) == 0
if not superseding and full(KEYS[6], uid, ARGV[13], ARGV[14]) then return 'full' end
local freed = {}
if superseding and drop_entry(KEYS[5], KEYS[13], KEYS[12], ARGV[23], old_id, freed) then
  count_freed(KEYS[6], freed)
  redis.call('XADD', KEYS[17], 'MAXLEN', '~', ARGV[25], '*', 'o', ARGV[24],
    'id', 'superseded-' .. old_id, 'ms', int(now_ms()))
end
redis.call('PERSIST', KEYS[11])
local size = tonumber(ARGV[22]) + tonumber(redis.call('HGET', KEYS[11], 'size'))
local first = '1'
if redis.call('SISMEMBER', KEYS[15], scope .. '#' .. ARGV[8]) == 1 then first = '0' end
local hold, released = '', redis.call('HGET', KEYS[16], scope)
if released then
  local generation, id = released:match('^(%d+) (.*)$')
  if tonumber(ARGV[20]) >= tonumber(generation) then hold = id end
end
local id = redis.call('XADD', KEYS[5], '*', 'k', 'sweep', 'u', uid, 's', scope, 'o', '', 'm', ARGV[21],
  'b', '', 'n', int(size), 'r', replay, 'f', first, 'c', ARGV[19], 'h', hold)
count_bytes(KEYS[6], uid, size)
redis.call('HSET', KEYS[12], field, id .. ' ' .. replay)
local replayed = tonumber(redis.call('HGET', KEYS[14], scope .. '|r') or '0')
if tonumber(ARGV[20]) > replayed then redis.call('HSET', KEYS[14], scope .. '|r', ARGV[20]) end
redis.call('HSET', KEYS[9], ARGV[15], ARGV[16])
redis.call('SADD', KEYS[10], field)
make_due(KEYS[7], KEYS[8], ARGV[15], ARGV[17])
move_cursor(KEYS[3], KEYS[4], ARGV[9], ARGV[6], ARGV[7], ARGV[3], ARGV[8], ARGV[10])
redis.call('HSET', KEYS[4], 'replay', replay)
return 'ok'
