-- What correct and restore share.

-- count adds units at a time to all sums of a limit that reach so far back.
local function count(name, at, units)
  for w in string.gmatch(redis.call('HGET', state, '@' .. name) or '', '%d+') do
    local window = name .. ' ' .. w
    local s = redis.call('HMGET', state, '>' .. window, '<' .. window)
    if s[1] and at > s[1] * 1 then
      redis.call('HINCRBY', state, '+' .. window, string.format('%.0f', units))
      redis.call('HSET', state, '<' .. window, string.format('%.0f', math.min(s[2], at)))
    end
  end
end

-- changes returns what a grant would charge if it is settled to units, and of each limit name and difference: its
-- greatest charge becomes that, all that tie with it too, a smaller one at most that.
local function changes(entry, to)
  local charged, rest = string.match(entry, '^([^\n]*)(.*)$')
  local was = string.match(rest, '\nwas([^\n]*)') or charged
  if not string.find(rest, '\nwas', 1, true) then rest = rest .. '\nwas' .. charged end
  local counted, greatest, text, list = {}, 0, '', {}
  for name, units in string.gmatch(charged, ' ([^ =]+)=(%d+)') do counted[name] = units * 1 end
  for units in string.gmatch(was, '=(%d+)') do greatest = math.max(greatest, units) end
  for name, units in string.gmatch(was, ' ([^ =]+)=(%d+)') do
    local counts = units * 1 == greatest and to or math.min(units, to)
    text = text .. string.format(' %s=%.0f', name, counts)
    list[#list + 1], list[#list + 2] = name, counts - counted[name]
  end
  return text .. rest, list
end

-- settle lets a grant count what its newest settlement says, at the grant's own time.
local function settle(grant)
  local s = redis.call('HMGET', state, '=' .. grant, '~' .. grant)
  local at = s[1] and s[2] and redis.call('ZSCORE', log, grant)
  if not at then return end
  local text, list = changes(s[1], string.match(s[2], '^%d+') * 1)
  for j = 1, #list, 2 do count(list[j], at * 1, list[j + 1]) end
  redis.call('HSET', state, '=' .. grant, text)
end

-- close closes a limit until a time; 0 opens it. Closings and openings may come in any order, and more than once:
-- !NAME has the closings, "until at who and why" in a line each, that neither a newer opening ends nor another one
-- outdoes that is newer and not shorter, the longest first; then the newest opening. One that is over has no line.
local function close(name, till, at, why)
  local all, newest, text, opened = {}, 0, '', ''
  local lines = (redis.call('HGET', state, '!' .. name) or '') .. string.format('%.0f %.0f %s\n', till, at, why)
  for t, a, w in string.gmatch(lines, '(%d+) (%d+) ([^\n]*)\n') do
    if t ~= '0' then
      if t * 1 > clock then all[#all + 1] = { t * 1, a * 1, w } end
    elseif a * 1 > newest then
      newest = a * 1
      opened = string.format('0 %.0f %s\n', newest, w)
    end
  end
  table.sort(all, function(x, y) return x[1] > y[1] or x[1] == y[1] and x[2] > y[2] end)
  for _, c in ipairs(all) do
    if c[2] > newest then
      newest = c[2]
      text = text .. string.format('%.0f %.0f %s\n', c[1], c[2], c[3])
    end
  end
  redis.call('HSET', state, '!' .. name, text .. opened)
end

-- corrected reads line 2 of an entry that corrects: what it does, to what, and with which number.
local function corrected(entry) return string.match(entry, '^\n(%a+) (%S+) (%d+) ?([^\n]*)') end
