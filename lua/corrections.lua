-- Begins a log, corrects entries of it, and puts back what it has lost; lua.go puts it in front of
-- the scripts that do.

-- charges returns what an entry counts in the limits that it was charged in.
local function charges(text, to, given)
  local list = recorded(text)
  local most = greatest(list)
  list = string.gsub(list, ',([^=]+)=(%d+)', function(name, charge)
    charge = tonumber(charge)
    if to ~= '-' then charge = after(charge, most, tonumber(to)) end
    return ',' .. name .. '=' .. int(math.max(0, charge - (amount(given, name) or 0)))
  end)
  return list
end

-- draw_epoch draws a name that no other log has. When it was begun is part of it: what is known of
-- a log before its first entry.
local function draw_epoch()
  epoch = boot .. int(call) .. '@' .. int(now)
end

-- begin draws the epoch of a log that has none. An account that was evicted alone goes on behind
-- what is left of the others.
local function begin()
  if epoch ~= '' then return end
  local newest = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  if newest and id_before(id_of(last_ms, last_seq), newest[1]) then
    last_ms, last_seq = parts(newest[1])
    now = math.max(now, last_ms)
  end
  corrected = redis.call('HLEN', settled)
  draw_epoch()
end

-- numbered_here tells whether a number is one of next_id's, not a host's.
local function numbered_here(seq)
  return seq < HOST_SEQ or seq >= LEDGER_SEQ
end

-- append writes an entry under an id, and the id that it was granted under if that is another.
local function append(id, text, granted)
  if granted and granted ~= id then
    redis.call('XADD', log, id, 'e', text, 'a', granted)
  else
    redis.call('XADD', log, id, 'e', text)
  end
end

-- apply makes a correction hold, and returns how it stands in the entry that makes it: there an
-- entry is called as it was granted, which a loss does not change.
local function apply(by, id, granted, to, given)
  local to_before, given_before = state_of(id)
  set_state(id, by, to, given)
  return table.concat({ ';' .. granted, to_before, given_before, to, given }, ' ')
end

-- settle settles a grant by an entry that is written now, and returns that entry and its id.
local function settle(trace, id, granted, text, to)
  local by, to_before, given = next_id(), state_of(id)
  local line = table.concat({ trace, charges(text, to_before, given), charges(text, to, given) }, ' ') .. apply(by, id, granted, to, given)
  append(by, line)
  return line, by
end

-- drop_views takes all views out of the account: they count the log anew.
local function drop_views()
  v, views = nil, {}
end

-- counts_now tells whether an entry's time is in the window of any limit.
local function counts_now(id)
  local ms = parts(id)
  for i = 1, count do
    if ms > cutoffs[i] then return true end
  end
  return false
end

-- note_closing takes in what the entry of an id says of a limit that is closed or opened. A
-- newer one holds.
local function note_closing(id, text)
  local limit, until_ms, by, says = string.match(text, '^c (%S+) (%d+) (%S+) %S+ (%S+)$')
  limit = limit or string.match(text, '^o (%S+) ')
  if not limit then return end
  local since_ms = parts(id)
  if closed[limit] and closed[limit].since_ms > since_ms then return end
  closed[limit] = until_ms and { since_ms = since_ms, until_ms = tonumber(until_ms), says = says, by = by }
end

-- put_back puts an entry back that the log does not have: where it stood, or else now. An entry
-- counts from its place, so that it may count for longer, never for less.
local function put_back(granted, place, text)
  local kind, ms, seq = string.sub(text, 1, 1), parts(place)
  note_closing(granted, text)
  if not before(trimmed_ms, trimmed_seq, ms, seq) then return nil end
  local there = entry_of(granted)
  if there and string.match(there, '^[^;]*') == string.match(text, '^[^;]*') then return granted end
  there = placed(granted)
  if there ~= granted then return there end
  local key = string.match(text, '^g%S* %S+ %S+ %S+ %S+ (%S+)$')
  local holder = key and key ~= '-' and request(key)
  local held = holder and counts_now(holder) and entry_of(holder)
  if held and string.match(held, '^g%S* (%S+ %S+)') == string.match(text, '^g%S* (%S+ %S+)') then
    name_entry('=' .. granted, holder)
    return holder
  end
  if numbered_here(seq) then now = math.max(now, ms) end
  local free = ms <= now and before(last_ms, last_seq, ms, seq)
  if kind == 'r' then
    for limit, c in pairs(closed) do
      if c.since_ms <= ms then closed[limit] = nil end
    end
    if not free then return nil end
    redis.call('DEL', log, settled, requests)
    corrected, lost_ms, trimmed_ms, trimmed_seq, nothing_corrected = 0, 0, ms, seq, nil
  end
  local id = place
  if free then last_ms, last_seq = ms, seq else id = next_id() end
  if id ~= granted then name_entry('=' .. granted, id) end
  if key and key ~= '-' and not held then name_entry(key, id) end
  if kind == 's' or kind == 'd' then
    -- Of several corrections of an entry the one that was made last holds.
    local head, list = string.match(text, '^([^;]*)(.*)$')
    local made = {}
    for of, to, given in string.gmatch(list, ';(%S+) %S+ %S+ (%S+) ([^;%s]+)') do
      local _, _, by = state_of(placed(of))
      if entry_of(placed(of)) and id_before(by, granted) then made[#made + 1] = apply(granted, placed(of), of, to, given) end
    end
    text = head .. table.concat(made)
  end
  append(id, text, granted)
  return id
end
