-- Reads a credential's account; lua.go puts it in front of the scripts that deal with one.
--
-- One credential has these keys, with one hash tag:
--   account   string  all that a decision needs: see below
--   log       stream  an entry per grant or correction, its id on the server's clock: e the
--                     entry, and a the id under which it was granted where its place was taken
--   settled   hash    id of a corrected entry -> "correction's id, units it was settled to or -,
--                     units given back (,daily=5) or -"
--   requests  hash    digest of a request key, or = and the id granted under -> entry id; the
--                     field - tells that the hash expires with the other keys
--   view:…    hash    of one view: p1, p2… what operations cost in its limits (",search.list=100",
--                     and the jobs of a share: ";+,backfill," alone or ";-,trending," all but these)
--                     and its index: g0, g1… and s0, s1…
--   staged    zset    while a lost log is put back: entries by ms, "seq id entry"
-- and beside them, for people, the hash hosts: what each daemon says that it counts.
--
-- An entry is a line of text, whose first letter is its kind. Charges are ",daily=100,search=1".
--   g<charges> operation count by region request-digest      a grant
--   u<charges> limit asked booked by region note             units booked by an adjustment
--   d limit asked booked by region note;<correction>;…       units given back by an adjustment
--   s grant units by region before after;<correction>        a settlement, with the grant's charges
--   r by region note                                         a reset
--   c limit until by region note                             a limit is closed until a ms
--   o limit by region note                                   it is opened
-- A correction is "id settled given settled given": an entry, and what it was settled to and what was
-- given back of it before and after. The newest one of an entry holds.
--
-- The account is packed, and all of it is written by each call that writes:
--   front    its version, 3 · the log's epoch, drawn when it was begun, so that its loss is noticed ·
--            empty, or the name of the quiet period after a loss, in which nothing is granted · which
--            daemon wrote, in which process · its view, and how many limits that has
--   state    ms and number of the newest entry ever written · the daemon's last call · requests that
--            it granted, if grant.lua did, else 0 · entries since the last block of the view's index
--            ended · ms at which something is to be done before more is granted, such as to take out
--            of a window what has left it · per limit the units in its window
--   numbers  the newest entry trimmed off · ms up to which entries were trimmed that a longer
--            window would count · ms until which the keys live · corrected entries · the epoch that a
--            reset ended, or -
--   records  C, of a daemon: process · its last call · the one of its calls that left what
--            follows, and its ms · what that did
--            V, of a view, which is what the limits of one configuration count: hosts with another
--            configuration have another one, and do not disturb each other. Where state speaks of a
--            record too, state is newer. A view has
--              seen, seen_seq   the newest entry that it has counted
--              n                entries since the last block of its index ended
--              from, from_seq   that block's last entry
--              blocks, first    blocks there were, and the first group of them that is kept
--              stale            entries that left since the log was trimmed
--              span             the longest window in ms
--              lives            ms until which the view's own key lives
--            and for each limit
--              gone, gone_seq   entries up to here have left the window, or count nothing in it
--              left             ms of the newest one that has left it and counted something: should the
--                               clock be set back so far that it would be in the window again, nothing is
--                               granted until it has left once more
--              due              ms of the next one that leaves, 0 if the window is empty
--              sum              units in the window
--              run              units of the entries behind from
--            X, of a limit that is closed: since and until which ms · its name · why · who said so
local FRONT, STATE, NUMBERS, RECORD, CALL = '<c1Bc0Bc0c8c8c8B', '<dddBBd', '<dddddBc0', '<c1c8Hc0', '<c8ddd'
local VIEW, LIMIT, CLOSED = '<dddddddddd', '<dddddd', '<ddBc0Hc0Bc0'

local BUDGET = 512    -- entries that one call may count, or take out of windows
local BLOCK = 128     -- entries in a block of a view's index
local STALE_MAX = 128 -- entries that left before the log is trimmed

-- ARGV 1 to 3 are the same for all: the front that the account has if this daemon wrote last · for
-- each limit, packed, the length of a sliding window in ms, or 0, start and end of the calendar
-- period, the ms from which on the limit refuses nothing, and its name · packed too, the newest entry that the daemon knows of, and the call's number.
local log, settled, requests, view = KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local _, known_epoch, _, daemon, boot, digest, count = struct.unpack(FRONT, ARGV[1])
local known_ms, known_seq, call = struct.unpack('<ddd', ARGV[3])

local last_ms, last_seq, trimmed_ms, trimmed_seq, lost_ms, expires, corrected = 0, 0, 0, 0, 0, 0, 0
local epoch, before_reset, quiet, calls, views, closed = '', '-', '', {}, {}, {}
local text = redis.call('GET', KEYS[1])
if text then
  if string.byte(text) ~= 51 then return { 'version', clock_ms, '', '0-0', clock_ms, '' } end
  local writer, writer_boot, viewed, limits, at, last_call, granted, counted, kind, name, record
  _, epoch, quiet, writer, writer_boot, viewed, limits, at = struct.unpack(FRONT, text)
  last_ms, last_seq, last_call, granted, counted, _, at = struct.unpack(STATE, text, at)
  local used = { struct.unpack('<' .. string.rep('d', limits), text, at) }
  trimmed_ms, trimmed_seq, lost_ms, expires, corrected, before_reset, at = struct.unpack(NUMBERS, text, used[limits + 1])
  while at <= #text do
    kind, name, record, at = struct.unpack(RECORD, text, at)
    if kind == 'C' then
      local of, did, made, ms, from = struct.unpack(CALL, record)
      calls[name] = { boot = of, call = did, made = made, ms = ms, what = string.sub(record, from) }
    elseif kind == 'X' then
      local since_ms, until_ms, limit, says, by = struct.unpack(CLOSED, record)
      closed[limit] = { since_ms = since_ms, until_ms = until_ms, says = says, by = by }
    else
      local w, from = {}, nil
      w.seen, w.seen_seq, w.n, w.from, w.from_seq, w.blocks, w.first, w.stale, w.span, w.lives, from = struct.unpack(VIEW, record)
      while from <= #record do
        local l = {}
        l.gone, l.gone_seq, l.left, l.due, l.sum, l.run, from = struct.unpack(LIMIT, record, from)
        w[#w + 1] = l
      end
      views[name] = w
    end
  end
  if granted > 0 then
    local what = struct.pack('<dd', last_ms, last_seq - granted + 1) .. string.rep('1', granted)
    calls[writer] = { boot = writer_boot, call = last_call, made = last_call, ms = last_ms, what = what }
    local w = views[viewed]
    w.seen, w.seen_seq, w.n = last_ms, last_seq, counted
    for i = 1, limits do w[i].sum, w[i].run = used[i], w[i].run + used[i] - w[i].sum end
  end
end
local mine, v = calls[daemon], views[digest]

local now = clock_ms > last_ms and clock_ms or last_ms
local names, lengths, ends_ms, cutoffs, refuses_ms, stale_period = {}, {}, {}, {}, {}, false
local limit_at = 1
for i = 1, count do
  local starts_ms
  lengths[i], starts_ms, ends_ms[i], refuses_ms[i], names[i], limit_at = struct.unpack('<ddddBc0', ARGV[2], limit_at)
  if lengths[i] > 0 then
    cutoffs[i] = now - lengths[i]
  else -- a calendar period, perhaps not the one of now
    cutoffs[i] = starts_ms - 1
    stale_period = stale_period or now < starts_ms or now >= ends_ms[i]
  end
end

-- wake_ms returns the ms at which something is to be done before more is granted: 0 if now.
local function wake_ms()
  local seen = v and v.seen == last_ms and v.seen_seq == last_seq
  if not seen or quiet ~= '' or v.stale >= STALE_MAX or (trimmed_ms == last_ms and trimmed_seq == last_seq) then return 0 end
  for _, c in pairs(closed) do
    if c.until_ms > now then return 0 end
  end
  local wake = v.lives - v.span - 60000
  for i = 1, count do
    local due, left = v[i].due, v[i].left
    -- The clock may be set back then, though not behind the newest entry.
    local cutoff = cutoffs[i]
    if lengths[i] > 0 then cutoff = last_ms - lengths[i] elseif last_ms <= cutoff then cutoff = -1 end
    if lost_ms > cutoffs[i] or left > cutoff then return 0 end
    if lengths[i] == 0 then
      wake = math.min(wake, ends_ms[i])
    elseif due > 0 then
      wake = math.min(wake, due + lengths[i])
    end
  end
  return wake
end

-- packed_closed packs how a limit is closed.
local function packed_closed(limit)
  local c = closed[limit]
  return struct.pack(CLOSED, c.since_ms, c.until_ms, #limit, limit, #c.says, c.says, #c.by, c.by)
end

-- save writes the account.
local function save()
  local limits = v and count or 0
  local parts = {
    struct.pack(FRONT, '3', #epoch, epoch, #quiet, quiet, daemon, boot, digest, limits),
    struct.pack(STATE, last_ms, last_seq, mine and mine.boot == boot and mine.call or 0, 0, v and v.n or 0, wake_ms()),
  }
  for i = 1, limits do parts[2 + i] = struct.pack('<d', v[i].sum) end
  parts[#parts + 1] = struct.pack(NUMBERS, trimmed_ms, trimmed_seq, lost_ms, expires, corrected, #before_reset, before_reset)
  for name, c in pairs(calls) do
    local record = struct.pack(CALL, c.boot, c.call, c.made, c.ms) .. c.what
    parts[#parts + 1] = struct.pack(RECORD, 'C', name, #record, record)
  end
  for name, w in pairs(views) do
    local record = struct.pack(VIEW, w.seen, w.seen_seq, w.n, w.from, w.from_seq, w.blocks, w.first, w.stale, w.span, w.lives)
    for i = 1, #w do record = record .. struct.pack(LIMIT, w[i].gone, w[i].gone_seq, w[i].left, w[i].due, w[i].sum, w[i].run) end
    parts[#parts + 1] = struct.pack(RECORD, 'V', name, #record, record)
  end
  for limit, c in pairs(closed) do
    local record = packed_closed(limit)
    if c.until_ms > now then parts[#parts + 1] = struct.pack(RECORD, 'X', 'closed--', #record, record) end
  end
  redis.call('SET', KEYS[1], table.concat(parts), 'KEEPTTL')
end
