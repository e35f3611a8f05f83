-- Brings a view up to now, tells whether the log is whole, and keeps both short; lua.go puts it in
-- front of the scripts that deal with an account.

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
    elseif more > 0 then
      v[i].left = ms
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

-- catching_up returns the ms at which the log reaches back as far as limit i's window again, and
-- nothing would be in it that has left it, or 0 if that is so now.
local function catching_up(i)
  local missing_ms = math.max(lost_ms, v[i].left)
  if missing_ms <= cutoffs[i] then return 0 end
  if lengths[i] == 0 then return ends_ms[i] end
  return missing_ms + lengths[i]
end
