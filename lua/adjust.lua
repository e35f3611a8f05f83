-- Books units that were spent elsewhere against one limit, or gives back units that were counted
-- but not spent, those of the oldest debits first, and leaves a trace in the log.
--
-- KEYS  1 account · 2 log · 3 settled · 4 requests · 5 view
-- ARGV  1… the head, as account.lua reads it · then the limit's number · the units, negative to
--       give back · by · region · the note
-- reply [status, now in ms, epoch, newest entry, server's clock in ms, units booked or given back,
--       units used, the trace's entry id, the trace, 1 if there is more to give back]
--       status  done · overflow (the limit would hold more than 2^53-1) · stray (nobody waits for
--               this call any more) · or why the account is not ready

local MOST = 128 -- debits that one call corrects
local at = 7 + 4 * count
local number, asked, by, region, note = unpack(ARGV, at, at + 4)
number, asked = tonumber(number), tonumber(asked)
local T = tools()
local unready = T.ready()
if unready then return T.refuse(unready) end
if T.stray() then return T.answer('stray') end

local limit, w = T.name_of(number), 5 + 5 * number
local function done(booked, id, more)
  local reply = T.answer('done')
  reply[6], reply[7], reply[8], reply[9] = booked, v[w + SUM], id, T.entry(id)
  reply[10] = more
  return reply
end

local booked, written, more = string.match(T.done_before() or '', '^(%d+) (%S+) (%d)$')
if booked then return done(tonumber(booked), written, tonumber(more)) end
if v[w + SUM] + asked > T.MAX then return T.answer('overflow') end

local function trace(kind, asked_here, booked_here)
  return table.concat({ kind, limit, int(asked_here), int(booked_here), by, region, note }, ' ')
end

if asked > 0 then
  local id = T.next_id()
  T.append(id, trace('u,' .. limit .. '=' .. int(asked), asked, asked))
  booked, written, more = asked, id, 0
else
  local wanted, from, touched = math.min(-asked, v[w + SUM]), int(v[w + GONE]) .. '-' .. int(v[w + GONE_SEQ]), {}
  booked = 0
  while booked < wanted and #touched < MOST do
    local entries = redis.call('XRANGE', log, '(' .. from, '+', 'COUNT', MOST)
    for e = 1, #entries do
      from = entries[e][1]
      local units = T.units_now(number, from, entries[e][2][2])
      if units > 0 and booked < wanted and #touched < MOST then
        local given = math.min(units, wanted - booked)
        touched[#touched + 1] = { from, entries[e][2][4] or from, given }
        booked = booked + given
      end
    end
    if #entries < MOST then break end
  end
  more = booked < wanted and 1 or 0
  written = T.next_id()
  local corrections = {}
  for n = 1, #touched do
    local id, granted, units = unpack(touched[n])
    local to, given = T.state(id)
    corrections[n] = T.apply(written, id, granted, to, T.with_more(given, number, units))
  end
  T.append(written, trace('d', asked, -booked) .. table.concat(corrections))
end
T.fold()
T.remember(int(booked) .. ' ' .. written .. ' ' .. more)
T.keep_ahead()
save()
return done(booked, written, more)
