-- Shared by every script. Times are milliseconds of the Redis clock.
local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local function int(n)
  return string.format('%.0f', n)
end

-- A list, up to its item 'last' where that is given, in pieces that one command can take.
local function pages(list, last)
  local pieces, n = {}, last or #list
  for i = 1, n, 500 do pieces[#pieces + 1] = {unpack(list, i, math.min(i + 499, n))} end
  return ipairs(pieces)
end

-- The fence is a pair; both halves must be the living lease's (J2).
local function holds(lease_key, token, number)
  local v = redis.call('HMGET', lease_key, 'token', 'number')
  return v[1] == token and v[2] == number
end

-- Stream ids compare as two numbers; '' is before everything.
local function newer(a, b)
  if b == '' then return a ~= '' end
  if a == '' then return false end
  local a1, a2 = a:match('^(%d+)-(%d+)$')
  local b1, b2 = b:match('^(%d+)-(%d+)$')
  a1, a2, b1, b2 = tonumber(a1), tonumber(a2), tonumber(b1), tonumber(b2)
  return a1 > b1 or (a1 == b1 and a2 > b2)
end

-- An append or a wake only lowers a score, and not while the branch is leased (J9).
local function make_due(due_key, lease_key, branch_id, hint)
  if redis.call('EXISTS', lease_key) == 0 then
    redis.call('ZADD', due_key, 'LT', int(now_ms()), branch_id)
    redis.call('PUBLISH', hint, branch_id)
  end
end

-- Unsettled bytes, per target and in all; a field that reaches zero goes (J8).
local function count_bytes(bytes_key, uid, n)
  for _, field in ipairs({'t:' .. uid, 'all'}) do
    if redis.call('HINCRBY', bytes_key, field, n) <= 0 then
      redis.call('HDEL', bytes_key, field)
    end
  end
end

local function full(bytes_key, uid, target_limit, branch_limit)
  local v = redis.call('HMGET', bytes_key, 't:' .. uid, 'all')
  return tonumber(v[1] or '0') >= tonumber(target_limit) or tonumber(v[2] or '0') >= tonumber(branch_limit)
end

local function fields_of(stream_key, id)
  local found = redis.call('XRANGE', stream_key, id, id)
  if #found == 0 then return nil end
  local out, flat = {}, found[1][2]
  for i = 1, #flat, 2 do out[flat[i]] = flat[i + 1] end
  return out
end

-- Takes an entry out of the journal together with what hangs on it (J5, J16); its bytes are added to 'freed'.
local function drop_entry(stream_key, claimed_key, sweeps_key, staging_prefix, id, freed)
  redis.call('HDEL', claimed_key, id)
  local entry = fields_of(stream_key, id)
  if not entry then return nil end
  redis.call('XDEL', stream_key, id)
  freed[entry.u] = (freed[entry.u] or 0) + tonumber(entry.n)
  if entry.k == 'sweep' then
    redis.call('DEL', staging_prefix .. entry.r)
    local field = entry.u .. '|' .. entry.s
    local pending = redis.call('HGET', sweeps_key, field)
    if pending and pending:match('^%S+') == id then redis.call('HDEL', sweeps_key, field) end
  end
  return entry
end

-- Needs-replay: one number up; a park, where given, replaces the one before (J14).
local function raise_wanted(marks_key, scope, reason, parked_for)
  redis.call('HINCRBY', marks_key, scope .. '|w', 1)
  if reason ~= '' or tonumber(parked_for) > 0 then
    local till = 0
    if tonumber(parked_for) > 0 then till = now_ms() + tonumber(parked_for) end
    redis.call('HSET', marks_key, scope .. '|p', reason, scope .. '|t', int(till))
    redis.call('HINCRBY', marks_key, scope .. '|a', 1)
  end
end

local function count_freed(bytes_key, freed)
  for uid, n in pairs(freed) do count_bytes(bytes_key, uid, -n) end
end

-- Every scope of a branch replays (J15, J19).
local function replay_all(scopes_key, target_prefix, hint_prefix)
  for _, member in ipairs(redis.call('SMEMBERS', scopes_key)) do
    local uid, scope = member:match('^([^|]*)|(.*)$')
    raise_wanted(target_prefix .. uid .. ':marks', scope, '', '0')
    redis.call('PUBLISH', hint_prefix .. uid, '')
  end
end

local function unpark(marks_key, scope)
  redis.call('HDEL', marks_key, scope .. '|p', scope .. '|t')
end

-- The pair beside the cursor: retry, expected, or neither (J2).
local function cursor_state(append_key, expected_session, expected_seq, session, seq)
  local v = redis.call('HMGET', append_key, 'session', 'seq')
  local have_session, have_seq = v[1] or '', v[2] or ''
  if have_session == session and have_seq == seq then return 'duplicate' end
  if have_session == expected_session and have_seq == expected_seq then return 'expected' end
  if have_session == '' then return 'absent' end
  if have_session == session and tonumber(have_seq) > tonumber(seq) then return 'late' end
  return 'other'
end

local function move_cursor(cursor_key, append_key, rv, session, seq, epoch, fingerprint, ttl)
  if rv ~= '' then
    redis.call('SET', cursor_key, rv, 'EX', ttl)
  else
    redis.call('EXPIRE', cursor_key, ttl)
  end
  redis.call('HSET', append_key, 'session', session, 'seq', seq, 'epoch', epoch, 'fingerprint', fingerprint)
  redis.call('EXPIRE', append_key, ttl)
end
