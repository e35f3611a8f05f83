-- What acquire, walk and mirror read the log by.

local function after(from, count) -- a page of the log: ids and times
  return redis.call('ZRANGEBYSCORE', log, string.format('(%.0f', from), '+inf', 'WITHSCORES', 'LIMIT', 0, count)
end
local function entries(page) -- the entries of a page
  local ids = {}
  for j = 1, #page, 2 do ids[#ids + 1] = '=' .. page[j] end
  return #ids > 0 and redis.call('HMGET', state, unpack(ids)) or ids
end
local function units(entry, name)
  local text = entry or ''
  local _, at = string.find(text, ' ' .. name .. '=', 1, true)
  return at and at < (string.find(text, '\n', 1, true) or 0) and string.match(text, '^%d+', at + 1) * 1 or 0
end
-- walk returns when the missing units have left a window, and 0; or how far it got, and what is missing there; then
-- what the last entry charges, and how many were read: at most the number in most.
local function walk(name, from, missing, length, most)
  local count, read = math.min(PAGE, most), 0
  while read < most do
    local page = after(from, count)
    local list = entries(page)
    read = read + #list
    for j = 1, #list do
      local charged = units(list[j], name)
      missing, from = missing - charged, page[2 * j] * 1
      if missing <= 0 then return from + length, 0, charged, read end
    end
    if #list < count then return math.max(clock, from) + length, 0, 0, read end
    count = most - read
  end
  return from, missing, 0, read
end
