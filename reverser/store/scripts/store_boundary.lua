-- J13: from here on the window is finalized. An entry is in one boundary at most, and a boundary never moves.
-- KEYS branch lease, stream, boundaries, claimed, record, sweeps
-- ARGV token, number, boundary id, boundary, then entry ids (a bound attach included)
if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
local have = redis.call('HGET', KEYS[3], ARGV[3])
if have then
  if have:sub(have:find(' ', 1, true) + 1) == ARGV[4] then return 1 end
  return 0
end
for i = 5, #ARGV do
  if redis.call('HEXISTS', KEYS[4], ARGV[i]) == 1 then return 0 end
  if #redis.call('XRANGE', KEYS[2], ARGV[i], ARGV[i]) == 0 then return 0 end
end
for i = 5, #ARGV do
  redis.call('HSET', KEYS[4], ARGV[i], ARGV[3])
  local entry = fields_of(KEYS[2], ARGV[i])
  if entry.k == 'sweep' then
    local field = entry.u .. '|' .. entry.s
    local pending = redis.call('HGET', KEYS[6], field)
    if pending and pending:match('^%S+') == ARGV[i] then redis.call('HDEL', KEYS[6], field) end
  end
end
local order = int(redis.call('HINCRBY', KEYS[5], 'order', 1))
redis.call('HSET', KEYS[3], ARGV[3], order .. ' ' .. ARGV[4])
return 1
