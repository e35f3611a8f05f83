-- Decides one request, and books it in all its limits or in none. A booking is a request whose limits have no max.
--
-- KEYS  1 log, a sorted set: id → the µs at which it counts, no two the same · 2 state, a hash: clock (of the newest
--       entry) · epoch · quiet (until) · void (up to) · trimmed (up to) · trim (next) · wrong (the last µs of a wrong
--       clock) · server · back (how often entries came back) · count (of the entries) · =ID an entry, see
--       quota/slidinglog/doc.go · ~ID its settlement: units at · of each limit !NAME its closings · @NAME the
--       windows that are counted, each by its length; of each of them +NAME WINDOW the units of the entries after
--       >NAME WINDOW · <NAME WINDOW none of those is older
-- ARGV  1 id; empty: only look · 2 entry · 3 the newest entry that this host has, or empty · 4 epoch · 5 the newest
--       time that this host has seen · 6 keep, µs · 7 time of 3 · 8 an epoch, if another is needed · 9 the last µs at
--       which this may be decided, or 0 · then of each limit: name · length in µs, or the last µs before the period ·
--       0, or the first µs after the period · max; 2^53-1: nothing denies but the greatest number · cost · 1: it
--       only observes
-- reply the word · TIME · time of the newest entry · and then: granted, again: at · entry · '' · fits, denied: now · ''
--       · '' · busy: call again · clock now: the period is another · lost: restore · late · quiet until. Granted, fits
--       and denied have of each limit used · the closing in effect: "until since who and why" · retry (0: it fits) ·
--       missing units, if the walk did not end · how far it got; without a walk, where the window begins

local function span(i) -- which window a check is about
  return ARGV[i + 2] == '0' and ARGV[i + 1] or string.format('%.0f', ARGV[i + 2] - ARGV[i + 1])
end
fields[10] = 'trim'
for i = 10, #ARGV, 6 do
  local n, window = #fields, ARGV[i] .. ' ' .. span(i)
  fields[n + 1], fields[n + 2], fields[n + 3] = '+' .. window, '>' .. window, '<' .. window
  fields[n + 4], fields[n + 5] = '!' .. ARGV[i], '@' .. ARGV[i]
end
local s = redis.call('HMGET', state, unpack(fields))
local last = (s[1] or 0) * 1
local now = clock > last and clock or last + 1
local answered = known(s, last, now)
if answered then return answered end

local work = WORK

-- move lets a sum begin after another time, and returns it with that time and that of its oldest entry. What is too
-- much for one call it leaves to the next one; false: the log lacks entries.
local function move(name, sum, through, oldest, to)
  local count = math.max(0, math.min(PAGE, work)) -- to Redis, a negative one is all
  while through < to do -- what has left
    local page = after(through, count)
    local list = entries(page)
    for j = 1, #list do
      local at = page[2 * j] * 1
      if at > to then return sum, to, at end
      sum, through = sum - units(list[j], name), at
    end
    work = work - #list
    if #list < count then return sum == 0 and 0, to, last + 1 end -- the log ends here
    local leave = redis.call('ZCOUNT', log, string.format('(%.0f', through), string.format('%.0f', to))
    if redis.call('ZCOUNT', log, string.format('(%.0f', to), '+inf') < leave then -- what stays is less
      sum, through, oldest = 0, last, last + 1
    elseif work <= 0 then
      return sum, through, through
    end
    count = math.max(1, math.min(100, work))
  end
  while through > to do -- what comes back
    local low, high = string.format('(%.0f', to), string.format('%.0f', through)
    local page = redis.call('ZREVRANGEBYSCORE', log, high, low, 'WITHSCORES', 'LIMIT', 0, count)
    local list = entries(page)
    for j = 1, #list do
      sum, oldest = sum + units(list[j], name), page[2 * j] * 1
      through = oldest - 1
    end
    work = work - #list
    if #list < count then through = to elseif work <= 0 then break end
    count = math.max(1, math.min(100, work))
  end
  return sum, through, oldest
end

-- windows returns those of a limit that are counted, with another one; it drops what no call has asked for in keep.
local function windows(was, name, trimmed, another)
  local list = ''
  for w in string.gmatch(was or '', '%d+') do
    local of = name .. ' ' .. w
    if w ~= another and (redis.call('HGET', state, '>' .. of) or -1) * 1 >= trimmed then
      list = list .. w .. ' '
    elseif w ~= another then -- that one is added at the end
      redis.call('HDEL', state, '+' .. of, '>' .. of, '<' .. of)
    end
  end
  return list .. another
end

local void, trimmed = (s[4] or 0) * 1, (s[5] or 0) * 1
local set, reply, walks, fits, would, all = { 'HSET', state }, {}, {}, true, '', {}
local function put(field, value) set[#set + 1], set[#set + 2] = field, value end
local function write() if #set > 2 then redis.call(unpack(set)) end end
for i = 10, #ARGV, 6 do
  local name, length, ends, max, cost = ARGV[i], ARGV[i + 1] * 1, ARGV[i + 2] * 1, ARGV[i + 3] * 1, ARGV[i + 4] * 1
  local n = (i - 10) / 6 * 5
  local sum, through, oldest, closings = s[n + 11], s[n + 12], s[n + 13], s[n + 14] or ''
  local window, from = name .. ' ' .. span(i), length
  all[name] = s[n + 15]
  if ends == 0 then
    from = now - length
  elseif now <= length or now >= ends then
    return { 'clock', clock, last, now }
  end
  from = math.max(from, void, trimmed)
  local moved, short = false, false
  if through and through * 1 >= trimmed then
    sum, through, oldest = sum * 1, through * 1, oldest * 1
  else -- never counted, or what it counts is not in the log any more
    sum, through, oldest, moved = 0, last, last + 1, true
    all[name] = windows(all[name], name, trimmed, span(i))
    put('@' .. name, all[name])
  end
  if from < through or from >= oldest then
    sum, through, oldest = move(name, sum, through, oldest, from)
    if not sum then -- the log lacks what the sum has: it was edited
      redis.call('DEL', log, state)
      return { 'lost', clock, last }
    end
    moved, short = true, through ~= from
  end
  if moved then
    put('+' .. window, sum)
    put('>' .. window, through)
    put('<' .. window, oldest)
  end
  if short then
    write()
    return { 'busy', clock, last }
  end
  local retry, missing, at, closed, closing = 0, 0, ends == 0 and from or ends, 0, ''
  if max < NONE then
    for line, till, since in string.gmatch(closings, '((%d+) (%d+) [^\n]*)\n') do
      if since * 1 > void then
        if till * 1 > now then closed, closing = till * 1, line end
        break
      end
    end
  end
  if ARGV[i + 5] == '1' then
    if closed > 0 or sum + cost > max then would = would .. ' would=' .. name end
  else
    retry = closed
    if sum + cost > max and ends == 0 then
      missing = sum + cost - max
      walks[#walks + 1] = { n, name, from, length }
    elseif sum + cost > max then
      retry = math.max(retry, at)
    end
    if retry > 0 or missing > 0 then fits = false end
  end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = sum, closing, retry, missing, at
end
for _, w in ipairs(walks) do -- not before all sums have moved: walks could leave no work for that, in each call
  local n = w[1]
  local till, missing, _, read = walk(w[2], w[3], reply[n + 4], w[4], math.min(WALK, math.max(work, 0)))
  work = work - read
  if missing == 0 then reply[n + 3] = math.max(reply[n + 3], till) end
  reply[n + 4], reply[n + 5] = missing, till
end

if not fits or ARGV[1] == '' then
  write()
  return { fits and 'fits' or 'denied', clock, last, now, '', '', unpack(reply) }
end
local entry = ARGV[2] .. would
for i = 10, #ARGV, 6 do
  local name, this, cost, n = ARGV[i], span(i), ARGV[i + 4], (i - 10) / 6 * 5 + 1
  reply[n] = reply[n] + cost
  put('+' .. name .. ' ' .. this, reply[n])
  if all[name] ~= this then
    for w in string.gmatch(all[name], '%d+') do
      local of = name .. ' ' .. w
      if w ~= this and (redis.call('HGET', state, '>' .. of) or now) * 1 < now then -- TIME may have been set back
        redis.call('HINCRBY', state, '+' .. of, cost)
      end
    end
  end
end
local count = s[6] + 1
if now > (s[10] or 0) * 1 then -- now and then
  local keep = ARGV[6] * 1
  local before = string.format('%.0f', now - keep)
  local old = redis.call('ZRANGEBYSCORE', log, '-inf', before, 'WITHSCORES', 'LIMIT', 0, TRIM)
  if #old > 0 then
    local gone = { 'HDEL', state }
    for j, text in ipairs(entries(old)) do
      gone[#gone + 1], gone[#gone + 2] = '=' .. old[2 * j - 1], '~' .. old[2 * j - 1]
      local grant = text and string.match(text, '^\nsettle (%S+) ')
      if grant then gone[#gone + 1] = '~' .. grant end -- of one that never came back, or has left before
    end
    redis.call(unpack(gone))
    redis.call('ZREMRANGEBYRANK', log, 0, #old / 2 - 1)
    put('trimmed', old[#old])
    count = count - #old / 2
  end
  put('trim', #old < TRIM * 2 and now + math.floor(keep / 50) or now)
  redis.call('PEXPIRE', log, math.ceil(keep / 500))
  redis.call('PEXPIRE', state, math.ceil(keep / 500))
end
put('clock', now)
put('=' .. ARGV[1], entry)
put('count', count)
redis.call('ZADD', log, now, ARGV[1])
write()
return { 'granted', clock, now, now, entry, '', unpack(reply) }
