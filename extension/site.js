// Site: the part of an address that a permission is asked for, and the permission.
const SHARED = /^(?:co|com|org|net|ac|gov|edu|or|ne|go)$/;

// "www.bbc.co.uk" belongs to "bbc.co.uk"; null for what is no site (files, numbers, the browser's own pages).
export function siteOf(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  const host = url.hostname.toLowerCase();
  if (!/^https?:$/.test(url.protocol) || !host.includes(".") || /^[\d.]+$|:|(?:^|\.)localhost$/.test(host)) return null;
  const parts = host.split(".");
  const two = parts.length > 2 && parts.at(-1).length === 2 && SHARED.test(parts.at(-2));
  return parts.slice(two ? -3 : -2).join(".");
}

export const pattern = (site) => `*://*.${site}/*`;
export const siteOfPattern = (origin) => /^\*:\/\/\*\.([^/*]+)\/\*$/.exec(origin)?.[1] ?? null;
