-- Reads a credential's account; lua.go puts it in front of the scripts that deal with one.
--
-- One credential has these keys, with one hash tag:
--   account   string  all that a decision needs: see below
--   log       stream  an entry per grant or correction, its id on the server's clock: e the
--                     entry, and a the id under which it was granted where its place was taken
--   settled   hash    id of a corrected entry -> "correction's id, units it was settled to or -,
--                     units given back (,daily=5) or -"
--   requests  hash    digest of a request key, or = and the id granted under -> entry id
--   view:…    hash    of one view: p1, p2… what operations cost in its limits (",search.list=100")
--                     and its index: g0, g1… and s0, s1…
--   staged    zset    while a lost log is put back: entries by ms, "seq id entry"
--
-- An entry is a line of text, whose first letter is its kind. Charges are ",daily=100,search=1".
--   g<charges> operation count by region request-digest      a grant
--   u<charges> limit asked booked by region note             units booked by an adjustment
--   d limit asked booked by region note;<correction>;…       units given back by an adjustment
--   s grant units by region before after;<correction>        a settlement, with the grant's charges
--   r by region note                                         a reset
-- A correction is "id settled given settled given": an entry, and what it was settled to and what was
-- given back of it before and after. The newest one of an entry holds.
--
-- The account is packed: its version, 1, the numbers and texts that the header below names, and
-- records. A record "C" is the last call of a daemon, "daemon call ms answer"; that of the daemon
-- that wrote last stands in the header. A record "V" is a view: what the limits of one
-- configuration count. Hosts with another configuration have another view, and do not disturb
-- each other. It is a digest, the number of limits, and the numbers of which the places follow.
local SEEN, SEEN_SEQ = 1, 2  -- the newest entry that the view has counted
local N = 3                  -- entries since the last block of its index ended
local FROM, FROM_SEQ = 4, 5  -- that block's last entry
local BLOCKS, FIRST = 6, 7   -- blocks there were, and the first group of them that is kept
local STALE = 8              -- entries that left since the log was trimmed
local SPAN = 9               -- the longest window in ms
local LIVES = 10             -- ms until which the view's own key lives
-- and behind place 5 + 5 * i for limit i
local GONE, GONE_SEQ = 1, 2  -- entries up to here have left the window
local DUE = 3                -- ms of the next one that leaves, 0 if the window is empty
local SUM = 4                -- units in the window
local RUN = 5                -- units of the entries behind from

local HEADER = '<c1dddddddBc0Bc0Bc0Bc0'
local BUDGET = 512    -- entries that one call may count, or take out of windows
local BLOCK = 128     -- entries in a block of a view's index
local STALE_MAX = 128 -- entries that left before the log is trimmed

-- ARGV 1 to 6 + 4 * limits are the same for all: the daemon · the call · the epoch of the log as the
-- daemon knows it · the newest entry that it knows of · the view's digest · the number of limits, and
-- for each its name · the length of a sliding window in ms, or 0 · start and end of the calendar period.
local daemon, call, known_epoch, known_last, digest, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local log, settled, requests, view = KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local clock_ms = clock()

-- epoch: drawn when the log was begun, so that its loss is noticed · before_reset: the one that a
-- reset ended, or - · last: the newest entry ever written · trimmed: the newest one trimmed off ·
-- lost_ms: up to there entries were trimmed that a longer window would count · expires: ms until
-- which the keys live · corrected: corrected entries · quiet: empty, or the name of the quiet period
-- after a loss, in which nothing is granted · mine: what this daemon's last call left
local last_ms, last_seq, trimmed_ms, trimmed_seq, lost_ms, expires, corrected = 0, 0, 0, 0, 0, 0, 0
local epoch, before_reset, quiet, mine, v, records = '', '-', '', '', nil, ''
local text = redis.call('GET', KEYS[1])
if text then
  if string.byte(text) ~= 49 then return { 'version', clock_ms, '', '0-0', clock_ms } end
  local at, _
  _, last_ms, last_seq, trimmed_ms, trimmed_seq, lost_ms, expires, corrected, epoch, before_reset, quiet, mine, at = struct.unpack(HEADER, text)
  local front = 'V' .. digest
  if string.sub(mine, 1, #daemon) ~= daemon or string.sub(text, at, at + #front - 1) ~= front then
    -- Somebody else wrote last: this daemon's records are looked for, and moved to the front.
    local others = mine ~= '' and { 'C' .. string.char(#mine) .. mine } or {}
    local own_view = ''
    mine = string.sub(mine, 1, #daemon) == daemon and table.remove(others) and mine or ''
    while at <= #text do
      local kind, ends = string.sub(text, at, at), 0
      if kind == 'C' then
        ends = at + 2 + string.byte(text, at + 1)
      else
        ends = at + #front + 1 + 8 * (10 + 5 * string.byte(text, at + #front))
      end
      local record = string.sub(text, at, ends - 1)
      if kind == 'C' and mine == '' and string.sub(record, 3, 2 + #daemon) == daemon then
        mine = string.sub(record, 3)
      elseif string.sub(record, 1, #front) == front then
        own_view = record
      else
        others[#others + 1] = record
      end
      at = ends
    end
    records = table.concat(others)
    if own_view ~= '' then v = { struct.unpack('<' .. string.rep('d', 10 + 5 * count), own_view, #front + 2) } end
  else
    v = { struct.unpack(count == 1 and '<ddddddddddddddd' or '<' .. string.rep('d', 10 + 5 * count), text, at + #front + 1) }
    records = string.sub(text, v[11 + 5 * count])
  end
end

local now = clock_ms > last_ms and clock_ms or last_ms
local cutoffs, stale_period = {}, false -- a calendar period is not the one of now
for i = 1, count do
  local length = tonumber(ARGV[4 + 4 * i])
  if length > 0 then
    cutoffs[i] = now - length
  else
    cutoffs[i] = ARGV[5 + 4 * i] - 1
    stale_period = stale_period or now <= cutoffs[i] or now >= tonumber(ARGV[6 + 4 * i])
  end
end

-- save writes the account.
local function save()
  local packed = struct.pack(HEADER, '1', last_ms, last_seq, trimmed_ms, trimmed_seq, lost_ms, expires, corrected,
    #epoch, epoch, #before_reset, before_reset, #quiet, quiet, #mine, mine)
  if v then
    packed = packed .. 'V' .. digest .. string.char(count)
      .. struct.pack(count == 1 and '<ddddddddddddddd' or '<' .. string.rep('d', 10 + 5 * count), unpack(v, 1, 10 + 5 * count))
  end
  redis.call('SET', KEYS[1], packed .. records, 'KEEPTTL')
end
