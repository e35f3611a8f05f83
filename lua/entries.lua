-- Reads and writes the log, and counts it in the view; lua.go puts it in front of the scripts
-- that deal with an account.

local MAX = 9007199254740991
local READ, FEW = 64, 4 -- entries read at a time, and first of all: mostly one or two have left
local GROUP = 64        -- blocks in a group of the index
-- A host numbers what it grants in an outage from HOST_SEQ to LEDGER_SEQ.
local HOST_SEQ, LEDGER_SEQ = 2 ^ 16, 2 ^ 48

-- int formats a whole number up to 2^53; tostring would round it.
local function int(n)
  return string.format('%.0f', n)
end

local function id_of(ms, seq)
  return string.format('%.0f-%.0f', ms, seq)
end

local function parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

-- before tells whether the first entry is older than the second one.
local function before(ms, seq, other_ms, other_seq)
  return ms < other_ms or (ms == other_ms and seq < other_seq)
end

local function id_before(a, b)
  local ms, seq = parts(a)
  return before(ms, seq, parts(b))
end

-- answer begins a reply: the status, now, the log's epoch and newest entry, the server's clock, and
-- the limits that are closed, packed one after the other.
local function answer(status)
  local packed = ''
  for limit, c in pairs(closed) do
    if c.until_ms > now then packed = packed .. packed_closed(limit) end
  end
  return { status, now, epoch, id_of(last_ms, last_seq), clock_ms, packed }
end

-- amount finds name in ",name=units,name=units".
local function amount(list, name)
  local _, at = string.find(list, ',' .. name .. '=', 1, true)
  if at then return tonumber(string.match(list, '^%d+', at + 1)) end
end

local function greatest(list)
  local most = 0
  for units in string.gmatch(list, '=(%d+)') do most = math.max(most, tonumber(units)) end
  return most
end

-- recorded returns the charges that an entry was written with.
local function recorded(text)
  return string.match(text, '^[gu](,%S*)') or ''
end

-- after applies a settlement to a charge: the greatest is replaced, a smaller one shrinks to it.
local function after(units, most, to)
  if units >= most then return to end
  return math.min(units, to)
end

-- entry_of returns the entry of an id, if the log has it, and the id under which it was granted.
local function entry_of(id)
  local found = redis.call('XRANGE', log, id, id)[1]
  if found then return found[2][2], found[2][4] or id end
end

-- behind iterates over the entries behind one, up to another: id, entry, and the id under which it
-- was granted.
local function behind(from, to)
  local page, n, size = nil, 0, FEW
  return function()
    if not page or n == #page then
      if page and n < size then return nil end
      if page then size = READ end
      page, n = redis.call('XRANGE', log, '(' .. from, to or '+', 'COUNT', size), 0
    end
    n = n + 1
    local found = page[n]
    if not found then return nil end
    from = found[1]
    return from, found[2][2], found[2][4] or from
  end
end

local changed = false   -- whether the view is another one than the account's
local nothing_corrected -- whether the settled hash is known to be empty

-- state_of returns what an entry was settled to, what was given back of it per limit, each - if
-- nothing was, and the correction that made it so.
local function state_of(id)
  if nothing_corrected == nil then nothing_corrected = redis.call('HLEN', settled) == 0 end
  local kept = not nothing_corrected and redis.call('HGET', settled, id)
  if not kept then return '-', '-', '0-0' end
  local by, to, given = string.match(kept, '^(%S+) (%S+) (%S+)$')
  return to, given, by
end

-- counts_calls tells whether a limit of some prices counts the calls of a job, or of "@" and a uid.
local function counts_calls(list, by)
  local sign, jobs = string.match(list, ';([+-])(%S*)$')
  if not sign then return true end
  local named = string.find(jobs, ',' .. by .. ',', 1, true) ~= nil
  return named == (sign == '+')
end

-- units returns what an entry counts in limit i, having been settled to to, and given given back:
-- its charge there, else what its operation costs its job there by the view's prices.
local prices = {}
local function units(i, text, to, given)
  local list = recorded(text)
  local charge = amount(list, names[i])
  if not charge then
    local operation, number, by = string.match(text, '^g%S* (%S+) (%d+) (%S+)')
    if not operation then return 0 end
    prices[i] = prices[i] or redis.call('HGET', view, 'p' .. i) or ''
    if not counts_calls(prices[i], by) then return 0 end
    charge = math.min((amount(prices[i], operation) or 0) * tonumber(number), MAX)
  end
  if to ~= '-' then charge = after(charge, greatest(list), tonumber(to)) end
  if given == '-' then return charge end
  return math.max(0, charge - (amount(given, names[i]) or 0))
end

local function units_now(i, id, text)
  local to, given = state_of(id)
  return units(i, text, to, given)
end

-- in_window tells whether an entry is in limit i's window.
local function in_window(i, id)
  local ms, seq = parts(id)
  return v[i].due > 0 and before(v[i].gone, v[i].gone_seq, ms, seq)
end

-- counted tells whether an entry is in the window of any limit.
local function counted(id)
  for i = 1, count do
    if in_window(i, id) then return true end
  end
  return false
end

-- window_from returns the newest entry that has left limit i's window.
local function window_from(i)
  return id_of(v[i].gone, v[i].gone_seq)
end

-- expire takes out of limit i's window what has left it, at most BUDGET entries. It returns
-- whether there may be more, or nil if entries are trimmed that it would need.
local function expire(i)
  local taken = 0
  if v[i].due == 0 or v[i].due > cutoffs[i] then return false end
  changed = true
  if v.seen == last_ms and v.seen_seq == last_seq and last_ms <= cutoffs[i] then -- everything has
    v[i].gone, v[i].gone_seq, v[i].due, v[i].sum, v.stale = last_ms, last_seq, 0, 0, STALE_MAX
    return false
  end
  if before(v[i].gone, v[i].gone_seq, trimmed_ms, trimmed_seq) then return nil end
  v[i].due = 0
  for id, text in behind(window_from(i)) do
    local ms, seq = parts(id)
    if ms > cutoffs[i] or taken == BUDGET then
      v[i].due = ms
      break
    end
    v[i].sum = v[i].sum - units_now(i, id, text)
    v[i].gone, v[i].gone_seq, taken = ms, seq, taken + 1
  end
  v.stale = v.stale + taken
  return v[i].due > 0 and v[i].due <= cutoffs[i]
end

-- The index: after every BLOCK entries that the view has counted a line "id sum sum…" is added
-- to the last group of GROUP lines: the block's last entry, and per limit what the entries of
-- the group up to there count. The last line of group 3 stands in s3, too.
local function line_of(id, sums)
  local line = { id }
  for i = 1, count do line[i + 1] = int(sums[i]) end
  return table.concat(line, ' ')
end

local function read_line(line)
  local sums, id = {}, nil
  for word in string.gmatch(line, '%S+') do
    if id then sums[#sums + 1] = tonumber(word) else id = word end
  end
  return id, sums
end

-- end_block ends the block that goes up to the newest entry that was counted, and drops a group
-- that has left every window.
local function end_block()
  local g, id = math.floor(v.blocks / GROUP), id_of(v.seen, v.seen_seq)
  local sums, group = {}, ''
  for i = 1, count do sums[i] = v[i].run end
  if v.blocks % GROUP > 0 then
    local got = redis.call('HMGET', view, 'g' .. g, 's' .. g)
    local _, earlier = read_line(got[2] or '')
    group = got[1] or ''
    for i = 1, count do sums[i] = sums[i] + (earlier[i] or 0) end
  end
  local line = line_of(id, sums)
  redis.call('HSET', view, 'g' .. g, group .. line .. '\n', 's' .. g, line)
  v.blocks, v.n, v.from, v.from_seq = v.blocks + 1, 0, v.seen, v.seen_seq
  for i = 1, count do v[i].run = 0 end
  if v.first >= g then return end
  local ms, seq = parts(read_line(redis.call('HGET', view, 's' .. v.first) or '0-0') or '0-0')
  for i = 1, count do
    if v[i].due > 0 and before(v[i].gone, v[i].gone_seq, ms, seq) then return end
  end
  redis.call('HDEL', view, 'g' .. v.first, 's' .. v.first)
  v.first = v.first + 1
end

-- groups returns the last lines of the index' groups, or nil if the index is gone.
local function groups()
  local fields = {}
  for g = v.first, math.ceil(v.blocks / GROUP) - 1 do fields[#fields + 1] = 's' .. g end
  if #fields == 0 then return fields end
  local lines = redis.call('HMGET', view, unpack(fields))
  for n = 1, #lines do
    if not lines[n] then return nil end
  end
  return lines
end

-- change_group adds to what a group of the index says what some of the changes from number at on
-- change, those up to the group's end. It returns the number of the next one.
local function change_group(g, ended_ms, ended_seq, changes, at)
  local changed, more = {}, {}
  for i = 1, count do more[i] = 0 end
  for line in string.gmatch(redis.call('HGET', view, 'g' .. g) or '', '[^\n]+') do
    local ended, sums = read_line(line)
    local ms, seq = parts(ended)
    while changes[at] and not before(ms, seq, changes[at].ms, changes[at].seq) do
      for i = 1, count do more[i] = more[i] + changes[at][i] end
      at = at + 1
    end
    for i = 1, count do sums[i] = sums[i] + more[i] end
    changed[#changed + 1] = line_of(ended, sums)
  end
  if #changed > 0 then redis.call('HSET', view, 'g' .. g, table.concat(changed, '\n') .. '\n', 's' .. g, changed[#changed]) end
  while changes[at] and not before(ended_ms, ended_seq, changes[at].ms, changes[at].seq) do at = at + 1 end
  return at
end

-- change adds to what the index says that entries count.
local function change(changes)
  table.sort(changes, function(a, b) return before(a.ms, a.seq, b.ms, b.seq) end)
  local at, lines = 1, nil
  if changes[1] and not before(v.from, v.from_seq, changes[1].ms, changes[1].seq) then lines = groups() end
  for n = 1, lines and #lines or 0 do
    local ms, seq = parts((read_line(lines[n])))
    if changes[at] and not before(ms, seq, changes[at].ms, changes[at].seq) then
      at = change_group(v.first + n - 1, ms, seq, changes, at)
    end
  end
  for n = at, #changes do
    if before(v.from, v.from_seq, changes[n].ms, changes[n].seq) then
      for i = 1, count do v[i].run = v[i].run + changes[n][i] end
    end
  end
end

-- fits returns the ms at which missing units have left limit i's window. Of a sliding window it
-- reads the entries of two blocks, and in between the index; it is nil if that is gone.
local function fits(i, missing)
  if lengths[i] == 0 then return ends_ms[i] end
  local from = window_from(i)
  local function walk(to)
    for id, text in behind(from, to) do
      missing = missing - units_now(i, id, text)
      if missing <= 0 then return parts(id) + lengths[i] end
    end
  end
  local lines = groups()
  if not lines then return nil end
  local located = false -- whether the block is behind us in which the window begins
  for n = 1, #lines do
    local ended, sums = read_line(lines[n])
    if located and sums[i] < missing then
      missing, from = missing - sums[i], ended
    elseif located or id_before(from, ended) then
      local base, group = 0, redis.call('HGET', view, 'g' .. (v.first + n - 1))
      if not group then return nil end
      for line in string.gmatch(group, '[^\n]+') do
        local block_end, upto = read_line(line)
        if not located and not id_before(from, block_end) then
          base = upto[i]
        elseif not located then
          local at = walk(block_end)
          if at then return at end
          located, from, base = true, block_end, upto[i]
        elseif upto[i] - base >= missing then
          return walk(block_end) or now + lengths[i]
        else
          missing, from, base = missing - (upto[i] - base), block_end, upto[i]
        end
      end
    end
  end
  return walk('+') or now + lengths[i]
end

-- request returns the id of the entry that a request key stands for.
local function request(key)
  local packed = redis.call('HGET', requests, key)
  if packed then return id_of(struct.unpack(#packed == 8 and '>I6I2' or '>I6I8', packed)) end
end

-- name_entry has a request key, or = and an id, stand for an entry: its ms in 6 bytes, and its
-- number.
local function name_entry(key, id)
  local ms, seq = parts(id)
  if redis.call('HSET', requests, '-', '') == 1 then redis.call('PEXPIRE', requests, math.max(expires - clock_ms, 60000)) end
  redis.call('HSET', requests, key, struct.pack(seq < 65536 and '>I6I2' or '>I6I8', ms, seq))
end

-- placed returns the id of the log for the one that a grant was granted under.
local function placed(id)
  return request('=' .. id) or id
end

local function set_state(id, by, to, given)
  local new = redis.call('HSET', settled, id, by .. ' ' .. to .. ' ' .. given)
  if new == 1 and redis.call('HLEN', settled) == 1 then redis.call('PEXPIRE', settled, math.max(expires - clock_ms, 60000)) end
  corrected, nothing_corrected = corrected + new, nil
end

-- correct counts a correction that an entry makes. It holds again, should the settled hash have
-- been evicted.
local function correct(by, correction, changes)
  local id, to_before, given_before, to_after, given_after = string.match(correction, '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
  if not id then return end
  id = placed(id)
  local text, deltas, any = nil, {}, false
  deltas.ms, deltas.seq = parts(id)
  for i = 1, count do
    deltas[i] = 0
    if in_window(i, id) then
      text = text or entry_of(id)
      if not text then return end
      deltas[i] = units(i, text, to_after, given_after) - units(i, text, to_before, given_before)
      v[i].sum = v[i].sum + deltas[i]
      any = any or deltas[i] ~= 0
    end
  end
  if any then changes[#changes + 1] = deltas end
  local _, _, newest = state_of(id)
  if text and id_before(newest, by) then set_state(id, by, to_after, given_after) end
end

-- count_units counts in every limit an entry that is new to the view.
local function count_units(ms, seq, units_in)
  for i = 1, count do
    local more = units_in(i)
    if v[i].due > 0 or (ms > cutoffs[i] and more > 0) then
      if v[i].due == 0 then v[i].gone, v[i].gone_seq, v[i].due = v.seen, v.seen_seq, ms end
      v[i].sum, v[i].run = v[i].sum + more, v[i].run + more
    end
  end
end

-- pass has the view have seen an entry.
local function pass(ms, seq)
  v.seen, v.seen_seq, v.n = ms, seq, v.n + 1
  if v.n >= BLOCK then end_block() end
end

-- fold counts the entries behind the one that the view has seen, at most BUDGET, and returns
-- whether that were all.
local function fold()
  if v.seen == last_ms and v.seen_seq == last_seq then return true end
  local budget = BUDGET
  changed = true
  for id, text, granted in behind(id_of(v.seen, v.seen_seq)) do
    if budget == 0 then return false end
    local ms, seq = parts(id)
    if recorded(text) ~= '' then
      count_units(ms, seq, function(i) return units(i, text, '-', '-') end)
    else
      local changes = {}
      for correction in string.gmatch(text, ';([^;]+)') do correct(granted, correction, changes) end
      change(changes)
    end
    pass(ms, seq)
    budget = budget - 1
  end
  v.seen, v.seen_seq = last_ms, last_seq
  return true
end

-- lost tells whether entries are missing that the daemon knows of and a window still counts: the
-- log was flushed, evicted, or is an older copy. A log whose keys expired while nobody used it
-- lacks nothing, nor does one that a reset ended.
local function lost()
  if known_epoch == '' or known_epoch == before_reset then return false end
  if epoch == known_epoch then
    if last_ms == known_ms and last_seq == known_seq then return false end
    if before(last_ms, last_seq, known_ms, known_seq) then return true end
    -- Others may have written since to a copy that lacks it: later is not longer.
    return before(trimmed_ms, trimmed_seq, known_ms, known_seq) and not entry_of(id_of(known_ms, known_seq))
  end
  -- Another log, or none: was the one that is known used in any window?
  local used = math.max(known_ms, tonumber(string.match(known_epoch, '@(%d+)$') or '0'))
  for i = 1, count do
    if used > cutoffs[i] then return true end
  end
  return false
end

-- emptied tells whether one of the keys was evicted without the others.
local function emptied()
  if before(trimmed_ms, trimmed_seq, last_ms, last_seq) and redis.call('XLEN', log) == 0 then return true end
  return redis.call('HLEN', settled) < corrected
end

-- next_id makes the id of an entry that is written now: the time, and a number above the last
-- one's within it. Behind what a host numbered in an outage the numbers go on above, so that the
-- host's next one is never taken for an entry of the ledger's.
local function next_id()
  if now > last_ms then
    last_ms, last_seq = now, 0
  elseif last_seq >= HOST_SEQ and last_seq < LEDGER_SEQ then
    last_seq = LEDGER_SEQ
  else
    last_seq = last_seq + 1
  end
  return id_of(last_ms, last_seq)
end

-- keep has the keys live on: never shorter than their newest entry counts. The expiry is set a
-- quarter of that ahead of need, so that not every grant has to. A new account is written before,
-- and every account after.
local function keep(span)
  local until_ms = math.floor(now + span * 1.25 + 60000)
  if v then
    v.lives = until_ms
    redis.call('PEXPIRE', view, until_ms - clock_ms)
  end
  expires = math.max(expires, until_ms)
  for k = 1, 4 do redis.call('PEXPIRE', KEYS[k], expires - clock_ms) end
end

-- keep_ahead does so if it is time.
local function keep_ahead()
  if v.lives < now + v.span + 60000 then keep(v.span) end
end

-- trim drops what no view's window needs any more, with the request keys and corrections that
-- belong to it, at most BUDGET entries; and views and calls that are that old.
local function trim()
  local bound = now
  changed = true
  for name, w in pairs(views) do
    if name == digest or w.seen >= now - w.span then
      bound = math.min(bound, now - w.span)
    else
      views[name] = nil
    end
  end
  for name, c in pairs(calls) do
    if c.ms < bound and name ~= daemon then calls[name] = nil end
  end
  local ms, seq = bound, MAX
  for i = 1, count do
    if v[i].due > 0 and before(v[i].gone, v[i].gone_seq, ms, seq) then ms, seq = v[i].gone, v[i].gone_seq end
  end
  local entries = redis.call('XRANGE', log, '(' .. id_of(trimmed_ms, trimmed_seq), id_of(ms, seq), 'COUNT', BUDGET)
  for e = 1, #entries do
    local id, fields = entries[e][1], entries[e][2]
    local key = string.match(fields[2], '^g%S* %S+ %S+ %S+ %S+ (%S+)$')
    if key and key ~= '-' and request(key) == id then redis.call('HDEL', requests, key) end
    if fields[4] then redis.call('HDEL', requests, '=' .. fields[4]) end
    if not nothing_corrected then corrected = corrected - redis.call('HDEL', settled, id) end
    trimmed_ms, trimmed_seq = parts(id)
  end
  if #entries < BUDGET then v.stale = 0 end
  if #entries == 0 then return end
  lost_ms = trimmed_ms
  -- Whole nodes only: what is left of the first one costs nothing to keep.
  redis.call('XTRIM', log, 'MINID', '~', id_of(trimmed_ms, trimmed_seq))
end

-- ready brings the view up to now, and returns why nothing can be decided, or nil:
-- period (a calendar period is not the one of now) · lost (restore first) · quiet · behind
-- (count first) · more (too much has left the windows for one call)
local function ready()
  if stale_period then return 'period' end
  if lost() then return 'lost' end
  if quiet ~= '' then return 'quiet' end
  if not v or before(v.seen, v.seen_seq, trimmed_ms, trimmed_seq) then return 'behind' end
  local blocks, all = v.blocks, fold()
  if v.blocks ~= blocks then save() end -- with what the index has now
  if not all then return 'behind' end
  local status = nil
  for i = 1, count do
    local more = expire(i)
    if more == nil then return 'behind' end
    if more then status = 'more' end
  end
  return status
end

-- daemons lists those that wrote to the log, or staged what it lost, and when they last did:
-- "name@ms name@ms".
local function daemons()
  local list = {}
  for name, c in pairs(calls) do list[#list + 1] = name .. '@' .. int(c.ms) end
  return table.concat(list, ' ')
end

-- refuse answers why nothing is decided; in a quiet period with its name, and the daemons.
local function refuse(status)
  local reply = answer(status)
  if status == 'quiet' then reply[7], reply[8] = quiet, daemons() end
  return reply
end

-- stray tells whether this call arrives after a later one of the same process: it was given up
-- while it was on its way, and nobody waits for it any more.
local function stray()
  return mine and mine.boot == boot and call < mine.call
end

-- done_before returns what this call did when it was made before.
local function done_before()
  return mine and mine.boot == boot and mine.made == call and mine.what or nil
end

-- remember notes what this call did, should it be asked again.
local function remember(what)
  mine = { boot = boot, call = call, made = call, ms = now, what = what }
  calls[daemon] = mine
end

-- catching_up returns the ms at which the log reaches back as far as limit i's window again, or 0
-- if it does now.
local function catching_up(i)
  if lost_ms <= cutoffs[i] then return 0 end
  if lengths[i] == 0 then return ends_ms[i] end
  return lost_ms + lengths[i]
end
