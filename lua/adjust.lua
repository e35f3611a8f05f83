-- Books units that were spent elsewhere against one limit, or gives back units that were counted
-- but not spent, those of the oldest debits first, and leaves a trace in the log.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it · then the limit's number · the units, negative to
--       give back · by · region · the note
-- reply [status, now in ms, epoch, newest entry, server's clock in ms, what is closed, units booked or given back,
--       units used, the trace's entry id, the trace, 1 if there is more to give back]
--       status  done · overflow (the limit would hold more than 2^53-1) · stray (nobody waits for
--               this call any more) · or why the account is not ready

local MOST = 128 -- debits that one call corrects
local number, asked, by, region, note = unpack(ARGV, 4, 8)
number, asked = tonumber(number), tonumber(asked)
local unready = ready()
if unready then return refuse(unready) end
if stray() then return answer('stray') end

local limit = names[number]
local function done(booked, id, more)
  local reply = answer('done')
  reply[7], reply[8], reply[9], reply[10] = booked, v[number].sum, id, entry_of(id)
  reply[11] = more
  return reply
end

local booked, written, more = string.match(done_before() or '', '^(%d+) (%S+) (%d)$')
if booked then return done(tonumber(booked), written, tonumber(more)) end
if v[number].sum + asked > MAX then return answer('overflow') end

-- with_more adds units to those of the limit in a list.
local function with_more(list, more)
  local given = amount(list, limit)
  if not given then return (list == '-' and '' or list) .. ',' .. limit .. '=' .. int(more) end
  local from, to = string.find(list, ',' .. limit .. '=' .. int(given), 1, true)
  return string.sub(list, 1, from) .. limit .. '=' .. int(given + more) .. string.sub(list, to + 1)
end

local function trace(kind, asked_here, booked_here)
  return table.concat({ kind, limit, int(asked_here), int(booked_here), by, region, note }, ' ')
end

if asked > 0 then
  local id = next_id()
  append(id, trace('u,' .. limit .. '=' .. int(asked), asked, asked))
  booked, written, more = asked, id, 0
else
  local wanted, touched = math.min(-asked, v[number].sum), {}
  booked = 0
  for id, text, granted in behind(window_from(number)) do
    if booked == wanted or #touched == MOST then break end
    local given = math.min(units_now(number, id, text), wanted - booked)
    if given > 0 then touched[#touched + 1] = { id, granted, given } end
    booked = booked + given
  end
  more = booked < wanted and 1 or 0
  written = next_id()
  local corrections = {}
  for n = 1, #touched do
    local id, granted, units = unpack(touched[n])
    local to, given = state_of(id)
    corrections[n] = apply(written, id, granted, to, with_more(given, units))
  end
  append(written, trace('d', asked, -booked) .. table.concat(corrections))
end
fold()
remember(int(booked) .. ' ' .. written .. ' ' .. more)
keep_ahead()
save()
return done(booked, written, more)
