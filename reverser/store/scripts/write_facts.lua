-- Audit facts into their slots. Repeating a batch changes nothing; a fact's time to live starts once.
-- An exact slot that two authors claim names nobody: one of them reported a version he did not make.
-- A removal keeps its first fact: asking again to delete what is being deleted changes nothing. Somebody
-- else who asked earlier but is heard of later makes it uncertain. `last` is the newest by stage time.
-- A fact is noted as unused, with the time at which it ages out, when it is the first in a slot of its own.
-- KEYS unused facts, then slots
-- ARGV ttl ms, hint channel, hint payload, then per slot: mode, author, stage time, value
local CONFLICT = '{"conflict":true}'
local UNCOUNTED = 300000
local ttl = ARGV[1]
local fresh = {}
local expiry = now_ms() + tonumber(ttl)
for i = 1, #KEYS - 1 do
  local key = KEYS[i + 1]
  local mode, author, stage, value = ARGV[4 * i], ARGV[4 * i + 1], ARGV[4 * i + 2], ARGV[4 * i + 3]
  local before = redis.call('GET', key)
  local keep = before
  if before and before ~= CONFLICT then
    local known, fact = pcall(cjson.decode, before)
    if not known or type(fact) ~= 'table' then
      keep = value
    else
      local stamp = fact.stageTimestamp or ''
      if mode == 'last' then
        if stage >= stamp then keep = value end
      elseif fact.author ~= author then
        if mode == 'claim' or stage == '' or stamp == '' or stage < stamp then keep = CONFLICT end
      end
    end
  end
  if not before and mode ~= 'last' then
    fresh[#fresh + 1] = expiry
    fresh[#fresh + 1] = key
  end
  keep = keep or value
  if keep ~= before then redis.call('SET', key, keep, 'PX', ttl) end
end
if #fresh > 0 then
  redis.call('ZADD', KEYS[1], unpack(fresh))
  redis.call('PEXPIRE', KEYS[1], ttl + UNCOUNTED)
end
if ARGV[3] ~= '' then redis.call('PUBLISH', ARGV[2], ARGV[3]) end
return #KEYS - 1
