-- Posts batches as a server SDK would. Arguments: the ingestion key, a folder with the bodies in
-- files named 1, 2, 3 …, how many there are, and their content encoding ("" for none).

local requests, place = {}, 0

function init(arguments)
  local headers = {["Content-Type"] = "application/json", ["User-Agent"] = "acme-sdk/3.1"}
  headers["Authorization"] = "Basic " .. arguments[1]
  if arguments[4] ~= "" then headers["Content-Encoding"] = arguments[4] end
  for i = 1, tonumber(arguments[3]) do
    local file = assert(io.open(arguments[2] .. "/" .. i, "rb"))
    requests[i] = wrk.format("POST", nil, headers, file:read("*a"))
    file:close()
  end
end

function request()
  place = place % #requests + 1
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
