-- Appends a record to a log if that ends where the caller believes and its clock is within
-- bounds; else it answers what the caller lacks, and changes nothing. An entry has one field, r, with a
-- record, whose first 12 bytes are its tag.
--
-- KEYS  1 log · 2 a key that never exists; if given, a look fails where an append would
-- ARGV  1 the id and the tag, joined, of the last record that the caller knows; 0-0: it knows none ·
--       2 not before, and · 3 not after, the log's clock in ms · 4 keep, in ms: what is older is dropped, and
--       the log expires after twice as long · 5 the record; empty: nothing is appended · 6 wipe: the log is
--       emptied first; blind: it may end anywhere; a number: the slack, it may have records of other hosts more, as
--       many as one reply has · 7 floor, in ms: the record's place is not before it
-- reply the new record's id, or [status, the server's clock in ms, ids and records in turn, the new record's id]
--       status  end · lost (that record is not there) · behind (by these) · more (behind by these, and others) · early ·
--               late · after (it was appended after these)

local log = KEYS[1]
local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
local id, tag = '0-0', ''
if last then id, tag = last[1], string.sub(last[2][2], 1, 12) end
local dash = string.find(id, '-', 1, true)
local ms = string.sub(id, 1, dash - 1) * 1
local clock, after = ms > clock_ms and ms or clock_ms, nil
if id .. tag ~= ARGV[1] and ARGV[6] ~= 'blind' then -- it holds the functions, which would cost each append
  -- read returns ids and records from an id on, and whether the log ends with them. A reply has 1,001 records after the
  -- caller's, or some 256 KiB. Each takes 1 µs here.
  local function read(from)
    local list, size, page = {}, 0
    repeat
      local count = math.min(100, 1002 - #list / 2)
      page = redis.call('XRANGE', log, from, '+', 'COUNT', count)
      for i = 1, #page do
        local fields = page[i][2]
        local body = fields[2]
        if #fields > 2 or fields[1] ~= 'r' then body = 'not a record: ' .. table.concat(fields, ' ') end
        list[#list + 1], list[#list + 2], size = page[i][1], body, size + #body
      end
      if #page < count then return list, true end
      from = '(' .. list[#list - 1]
    until #list > 2002 or size > 262144
    return list, false
  end

  -- A record has the host from byte 14 on, its terms from 26, and what it takes at most, of 4 bytes, from 30.
  local function commute(tail) -- grants of others under the caller's terms, which take no more than its slack
    local slack, host, terms = tonumber(ARGV[6]), string.sub(ARGV[5], 14, 21), string.sub(ARGV[5], 26, 29)
    if not slack then return false end
    for i = 2, #tail, 2 do
      local body = tail[i]
      if string.sub(body, 14, 21) == host or string.sub(body, 26, 29) ~= terms then return false end
      local most = struct.unpack('>I4', body, 30)
      slack = slack - most
      if most == 4294967295 or slack < 0 then return false end
    end
    return true
  end

  local begins = ARGV[1] == '0-0'
  local tail, whole = read(begins and '-' or string.sub(ARGV[1], 1, -13))
  if not begins and (table.remove(tail, 1) or '') .. string.sub(table.remove(tail, 1) or '', 1, 12) ~= ARGV[1] then
    return { 'lost', clock_ms }
  end
  if begins or not whole or not commute(tail) then return { whole and 'behind' or 'more', clock_ms, tail } end
  after = tail
end
if KEYS[2] then redis.call('XADD', KEYS[2], 'NOMKSTREAM', '*', 'r', '') end
if ARGV[5] == '' then return { 'end', clock_ms } end
if clock < ARGV[2] * 1 then return { 'early', clock_ms } end
if clock > ARGV[3] * 1 then return { 'late', clock_ms } end
if ARGV[6] == 'wipe' then redis.call('DEL', log) end
if ARGV[6] == 'wipe' or not last then clock, ms = clock_ms, -1 end
if ARGV[7] then clock = math.max(clock, ARGV[7]) end
local place = string.sub(id, 1, dash) .. string.sub(id, dash + 1) + 1
if clock > ms then place = (clock == clock_ms and clock_text or string.format('%.0f', clock)) .. '-0' end
local done = redis.pcall('XADD', log, place, 'r', ARGV[5])
if done.err then done = redis.call('XADD', log, '*', 'r', ARGV[5]) end -- ids that were removed by hand are used up
if clock_ms - clock_ms % 100 ~= ms - ms % 100 then -- not at each append: both take as long as the append itself
  redis.call('XTRIM', log, 'MINID', '~', math.max(0, clock - ARGV[4]))
  redis.call('PEXPIRE', log, ARGV[4] * 2)
end
return after and { 'after', clock_ms, after, done } or done
