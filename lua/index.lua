-- Keeps the index of a view, and finds with it when units come back; lua.go puts it in front of
-- the scripts that deal with an account.

local GROUP = 64 -- blocks in a group of the index

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
