// Makes the calls on standard input, a JSON object a line, with Segment's SDK for React Native,
// unmodified. What it needs of React Native, which is little, stands in for a phone.
//
// Arguments: the service's address, the ingestion key, and how many seconds to pause after each
// call. Exit status 1 if the SDK reported an error.

const Module = require('node:module')
const { createInterface } = require('node:readline')
const { setTimeout: sleep } = require('node:timers/promises')

const subscription = { remove() {} }
const phone = {
  'react-native': {
    AppState: { addEventListener: () => subscription },
    NativeEventEmitter: class {
      addListener = () => subscription
    },
    NativeModules: {
      AnalyticsReactNative: { getContextInfo: async () => ({ appName: 'App', osName: 'iOS' }) },
      Sovran: { getConstants: () => ({ ON_STORE_ACTION: 'action' }) },
    },
    Platform: { OS: 'ios', select: (choices) => choices.default },
  },
  react: { createContext: () => ({}) },
  'react-native-get-random-values': {},
  '@react-native-async-storage/async-storage': {},
}
const load = Module._load
Module._load = (name, ...more) => phone[name] ?? load(name, ...more)

const { createClient } = require('@segment/analytics-react-native')

const PUBLIC = 'https://eds.example.com'

async function main(address, key, pause) {
  const errors = []
  // The SDK accepts only HTTPS and a name with a dot. For others it sends to Segment itself.
  const { fetch } = globalThis
  globalThis.fetch = (url, options) => {
    if (!url.startsWith(PUBLIC)) errors.push(new Error(`sent to ${url}`))
    return fetch(url.replace(PUBLIC, address), options)
  }
  const memory = new Map()
  const client = createClient({
    writeKey: key,
    proxy: `${PUBLIC}/segment/v1`,
    cdnProxy: `${PUBLIC}/segment/v1`,
    useSegmentEndpoints: true,
    storePersistor: {
      get: async (name) => memory.get(name),
      set: async (name, value) => void memory.set(name, value),
    },
    errorHandler: (error) => errors.push(error),
  })
  await new Promise((resolve) => client.isReady.onChange(resolve))
  const make = {
    alias: ({ userId }) => client.alias(userId),
    identify: ({ userId, traits }) => client.identify(userId, traits),
    group: ({ groupId, traits }) => client.group(groupId, traits),
    track: ({ event }) => client.track(event, { planted: 'planted' }),
    screen: ({ name }) => client.screen(name),
  }
  for await (const line of createInterface({ input: process.stdin })) {
    const call = JSON.parse(line)
    await make[call.type](call)
    await sleep(pause * 1000)
  }
  await client.flush()
  client.cleanup()
  // On a busy machine, the SDK complains that its queue was late, and sends all the same.
  const failures = errors.filter((error) => error.message !== 'Queue restoration timeout')
  for (const failure of failures) console.error(failure)
  process.exit(failures.length ? 1 : 0)
}

main(...process.argv.slice(2))
