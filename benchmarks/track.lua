-- Posts track calls as an SDK would. Arguments: the ingestion key ("" for none).

local USERS, ACCOUNTS, EVENTS, PREPARED = 5000, 300, 20, 2000
local PAGES = {"/projects", "/reports", "/settings", "/inbox"}
local BODY = '{"userId":"user-%d","event":"%s","timestamp":"%s",' ..
  '"properties":{"page":"%s","items":%d,"plan":"pro"}%s}'

local requests, place = {}, 0

function init(arguments)
  local headers = {["Content-Type"] = "application/json", ["User-Agent"] = "acme-sdk/3.1"}
  if arguments[1] and arguments[1] ~= "" then
    headers["Authorization"] = "Basic " .. arguments[1]
  end
  -- Made beforehand, so that the load costs the machine little while it is measured.
  local now = os.date("!%Y-%m-%dT%H:%M:%SZ")
  for i = 1, PREPARED do
    local user = math.random(USERS) - 1
    local event = "event " .. math.min(math.random(EVENTS), math.random(EVENTS))
    local context = ""
    if i % 4 == 0 then
      context = string.format(',"context":{"groupId":"account-%d"}', user % ACCOUNTS)
    end
    local body = string.format(
      BODY, user, event, now, PAGES[i % #PAGES + 1], math.random(50), context)
    requests[i] = wrk.format("POST", nil, headers, body)
  end
end

function request()
  place = place % PREPARED + 1
  return requests[place]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"seconds":%f,"p50":%f,"p99":%f,"longest":%f,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, latency.max / 1e3, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
