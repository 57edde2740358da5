-- Entries after an id until a number of bytes is reached (at least one); without texts an event's text is left
-- out and its length told instead. KEYS stream   ARGV after id, bytes, texts (1 or 0)
local out, bytes, from = {}, 0, '-'
if ARGV[1] ~= '' then from = '(' .. ARGV[1] end
while true do
  local page = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 256)
  for _, entry in ipairs(page) do
    if #out > 0 and bytes >= tonumber(ARGV[2]) then return out end
    out[#out + 1] = entry
    local fields = entry[2]
    for i = 1, #fields, 2 do
      if fields[i] == 'n' then bytes = bytes + tonumber(fields[i + 1]) end
      if fields[i] == 'b' and ARGV[3] == '0' then
        fields[#fields + 1] = 't'
        fields[#fields + 1] = tostring(#fields[i + 1])
        fields[i + 1] = ''
      end
    end
  end
  if #page < 256 then return out end
  from = '(' .. page[#page][1]
end
