-- Comes before the rows are removed: a floor that is too high harms nobody.
INSERT INTO dibs_meta (name, value) VALUES ('token_floor', {floor}) ON DUPLICATE KEY UPDATE value = GREATEST(value, {floor})
