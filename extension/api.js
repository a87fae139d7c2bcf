// The browser's own interface, under one name, and what is kept in it: `local` on the disk, `session` in memory.
export const api = globalThis.browser ?? globalThis.chrome;

export async function kept(area, defaults) {
  return { ...defaults, ...(await api.storage[area].get(Object.keys(defaults))) };
}

let last = Promise.resolve();

// One change at a time, so that none is made from what another has changed since.
export function inTurn(change) {
  const done = last.then(change);
  last = done.catch(() => {});
  return done;
}
