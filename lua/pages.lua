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
  local charges = string.match(entry or '', '^[^\n]*')
  local _, at = string.find(charges, ' ' .. name .. '=', 1, true)
  return at and string.match(charges, '^%d+', at + 1) * 1 or 0
end
